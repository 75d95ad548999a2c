"""
Clusters step by step
=====================

Networks that find one cluster after the other keep their path.
"""

# %%
# Each panel is one step of the network: in colour the points that it took, light grey those taken
# before, dark grey those still left. A cross marks the point that the step started from.

import matplotlib.pyplot as plt

import clusterwise as cw

X, _ = cw.datasets.load_demo()
est = cw.DAC(filtering="anchored", random_state=0).fit(X)
cw.plotting.StepsDisplay.from_estimator(est, X)

# %%
# The steps are the network's own. What follows them, a search that merges and splits Gaussian
# clusters as long as the evidence of the mixture grows, absorbs the small remains. ``refine=None``
# leaves the search out.

alone = cw.DAC(filtering="anchored", refine=None, random_state=0).fit(X)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, title, found in zip(axes, ("network alone", "network and search"), (alone, est), strict=True):
    cw.plotting.ClusterDisplay.from_estimator(found, X, ax=ax)
    ax.set_title(f"{title}: {found.n_clusters_} clusters")
plt.show()
