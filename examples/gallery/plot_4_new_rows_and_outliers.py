"""
New rows and outliers
=====================

Label rows that arrive later, and find those that belong to no cluster.
"""

# %%
# Fit on today's rows. Rows that come later are labelled with the same clusters, each on its own: the
# label of a row does not depend on which other rows come with it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import clusterwise as cw

X, _ = make_moons(500, noise=0.06, random_state=0)
est = cw.Clusterer(random_state=0).fit(X)

rng = np.random.default_rng(1)
ordinary, _ = make_moons(60, noise=0.06, random_state=1)
anywhere = rng.uniform([-1.5, -1], [2.5, 1.5], (40, 2))
tomorrow = np.concatenate([ordinary, anywhere])
labels = est.predict(tomorrow)

# %%
# Every row gets a label, even one that is far from everything. The outlier score, between 0 and 1,
# tells which labels mean little.

scores = est.score_outliers(tomorrow)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
left.scatter(*X.T, s=4, c="#d0d4d8")
left.scatter(*tomorrow.T, s=18, c=[cw.plotting.cluster_colours(2)[label] for label in labels])
left.set_title("labels of the new rows")
right.scatter(*X.T, s=4, c="#d0d4d8")
shown = right.scatter(*tomorrow.T, s=18, c=scores, cmap="inferno_r", vmin=0, vmax=1)
right.set_title("outlier scores of the new rows")
figure.colorbar(shown)
plt.show()

print(f"{(scores > 0.5).sum()} of {len(tomorrow)} new rows have a score above one half")
