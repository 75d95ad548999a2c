"""
First steps
===========

Find the clusters of a data set, and how many there are.
"""

# %%
# The data set that comes with the package has the positions of 1,500 nests on a map, in metres. They
# belong to seven colonies, but the estimator does not know that.

import matplotlib.pyplot as plt

import clusterwise as cw

X, colonies = cw.datasets.load_demo()
est = cw.Clusterer(random_state=0).fit(X)
print(est.n_clusters_, "clusters")

# %%
# Every row has a label and a probability that the label is right; points of doubtful membership are
# drawn smaller and fainter. The bars show the probability of each number of clusters.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1.4, 1), layout="constrained")
cw.plotting.ClusterDisplay.from_estimator(est, X, ax=left, column_names=["easting (m)", "northing (m)"])
cw.plotting.KPosteriorDisplay.from_estimator(est, ax=right)
plt.show()

# %%
# ``expected_ari_`` tells you how far to trust the result as a whole: the agreement with the true
# clusters (adjusted Rand index, 1 is perfect) that the network behind the estimator expects. Here we
# know the truth and can compare.

from sklearn.metrics import adjusted_rand_score

print(f"expected {est.expected_ari_:.2f}, measured {adjusted_rand_score(colonies, est.labels_):.2f}")
