"""
Clusters step by step
=====================

Watch a network find one cluster after another.
"""

# %%
# Each panel is one step of the network. The points that it takes are in colour, those taken before in
# light grey, and those still left in dark grey. A cross marks the point that the step starts from.

import matplotlib.pyplot as plt

import clusterwise as cw

X, _ = cw.datasets.load_demo()
est = cw.DAC(filtering="anchored", random_state=0).fit(X)
cw.plotting.StepsDisplay.from_estimator(est, X)

# %%
# The steps leave some points behind, which become small clusters of their own. A search by evidence, which
# needs no network, has none.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, found in zip(axes, (est, cw.GaussianSearch().fit(X)), strict=True):
    colours = [cw.plotting.cluster_colours(found.n_clusters_)[label] for label in found.labels_]
    ax.scatter(*X.T, s=5, c=colours)
    ax.set(xticks=[], yticks=[], title=f"{type(found).__name__}: {found.n_clusters_} clusters")
plt.show()
