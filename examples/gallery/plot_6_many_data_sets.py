"""
Many data sets in one call
==========================

One data set per day, per sensor or per simulation: cluster all of them in one batch.
"""

# %%
# Two hundred small data sets, each with its own number of clusters.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import clusterwise as cw

rng = np.random.default_rng(0)
true_k = rng.integers(1, 7, 200)
data_sets = [
    make_blobs(150, centers=rng.normal(0, 6, (k, 2)), cluster_std=0.6, random_state=seed)[0]
    for seed, k in enumerate(true_k)
]

# %%
# Estimators with a trained network, such as ``AMCP``, run it on many data sets at once. The first call
# loads the weights and compiled code, so it is not timed.

est = cw.AMCP(random_state=0)
est.fit_partition_many(data_sets[:2])

started = time.perf_counter()
partitions = est.fit_partition_many(data_sets)
print(f"{len(data_sets)} data sets in {time.perf_counter() - started:.1f} s")
found_k = np.array([partition.n_clusters for partition in partitions])
print(f"k is right for {np.mean(found_k == true_k):.0%} of them")

# %%
# Where it is not, clusters of the generator often overlap too much to be told apart.

figure, axes = plt.subplots(1, 5, figsize=(12, 2.6), layout="constrained")
chosen = [*np.flatnonzero(found_k == true_k)[:3], *np.flatnonzero(found_k != true_k)[:2]]
for ax, i in zip(axes, chosen, strict=False):
    colours = np.array(cw.plotting.cluster_colours(found_k[i]))
    ax.scatter(*data_sets[i].T, s=5, c=colours[partitions[i].labels])
    ax.set(xticks=[], yticks=[], title=f"found {found_k[i]}, true k = {true_k[i]}")
plt.show()
