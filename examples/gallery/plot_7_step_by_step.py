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
alone = cw.DAC(filtering="anchored", refine=None, random_state=0).fit(X)
cw.plotting.StepsDisplay.from_estimator(alone, X)

# %%
# The steps leave some points behind, which become small clusters of their own; afterwards the network
# splits and merges clusters by its own densities. By default a search follows instead, which does the same
# with Gaussian clusters as long as the evidence of the mixture (the probability of the data with all
# parameters integrated out) grows. Above, ``refine=None`` turned that off.

est = cw.DAC(filtering="anchored", random_state=0).fit(X)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, title, found in zip(axes, ("network alone", "network and search"), (alone, est), strict=True):
    colours = [cw.plotting.cluster_colours(found.n_clusters_)[label] for label in found.labels_]
    ax.scatter(*X.T, s=5, c=colours)
    ax.set(xticks=[], yticks=[], title=f"{title}: {found.n_clusters_} clusters")
plt.show()
