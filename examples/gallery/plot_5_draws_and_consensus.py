"""
Draws and consensus
===================

Many plausible partitions instead of one show which rows certainly belong together, and which may not.
"""

# %%
# With few rows, several partitions are plausible. ``DPMixture`` samples them from the posterior of a
# Dirichlet-process mixture; all other estimators except ``DeepDPM`` have ``sample_partitions`` too.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import clusterwise as cw

centres = [[-9, 4], [6, 8], [8.2, 10.2], [2, -9]]
X, _ = make_blobs([25, 20, 15, 20], centers=centres, random_state=3)
est = cw.DPMixture(random_state=0).fit(X)
posterior = est.sample_partitions(200)
print({k: round(p, 3) for k, p in posterior.k_posterior.items()})

# %%
# The co-clustering matrix contains the probability that two rows share a cluster. The consensus is the
# partition that is closest to all draws.

consensus = posterior.consensus()
order = np.argsort(consensus.labels, kind="stable")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
colours = np.array(cw.plotting.cluster_colours(consensus.n_clusters))
left.scatter(*X.T, s=16, c=colours[consensus.labels])
left.set_title(f"consensus of {len(posterior)} draws")
image = right.imshow(posterior.coclustering()[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1)
right.set_title("probability that two rows share a cluster")
figure.colorbar(image)
plt.show()
