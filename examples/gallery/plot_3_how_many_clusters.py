"""
How many clusters, and how sure?
================================

When two groups nearly touch, the probability of each number of clusters shows the doubt.
"""

# %%
# Four round clusters, two of which overlap. Are there three or four? A warning points out that two of
# the clusters found could also be one.

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

import clusterwise as cw

centres = [[-8, 2], [4, 4], [6.3, 5.8], [1, -7]]
X, _ = make_blobs([120, 120, 80, 150], centers=centres, random_state=2)
est = cw.Clusterer(random_state=0).fit(X)
print({k: round(p, 3) for k, p in est.k_posterior_.items() if p > 0.005})

# %%
# ``labels_at`` gives a partition into the number of clusters that you choose. The less probable the
# number, the less natural the partition: five clusters cut a round one in two.

figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
cw.plotting.KPosteriorDisplay.from_estimator(est, ax=axes[0])
for ax, k in zip(axes[1:], (3, 4, 5), strict=True):
    colours = [cw.plotting.cluster_colours(k)[label] for label in est.labels_at(k)]
    ax.scatter(*X.T, s=6, c=colours)
    ax.set(xticks=[], yticks=[], title=f"labels_at({k})")
plt.show()

# %%
# The answer was cut from a tree in which every branch has a score: its expected overlap with a true
# cluster. The branches that became clusters are framed.

cw.plotting.TreeDisplay.from_estimator(est)
