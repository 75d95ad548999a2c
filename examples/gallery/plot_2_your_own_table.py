"""
Your own table
==============

Columns of different kinds, in different units, with missing values, from a CSV file.
"""

# %%
# The file ``examples/customers.csv`` in the repository describes 600 made-up customers of a shop. It
# has an id, numbers in several units, two columns of categories, and gaps.

from pathlib import Path

import pandas as pd

import clusterwise as cw

folders = [Path.cwd(), *Path.cwd().parents]  # this script may run anywhere in the repository
file = next(path for folder in folders if (path := folder / "examples/customers.csv").exists())
customers = pd.read_csv(file)
customers.head()

# %%
# A data frame can be clustered as it is. ``notes_`` lists what was done to the columns.

est = cw.Clusterer(random_state=0).fit(customers)
print(*est.preparation_.notes_, sep="\n")
print(est.n_clusters_, "clusters")

# %%
# What are these clusters? Typical values, in the units of the file:

by_cluster = customers.groupby(est.labels_)
typical = by_cluster.median(numeric_only=True)
typical["most frequent channel"] = by_cluster["channel"].agg(lambda values: values.mode()[0])
typical["customers"] = by_cluster.size()
typical

# %%
# The customers on the first two principal components of the prepared columns.

cw.plotting.ClusterDisplay.from_estimator(est, customers)
