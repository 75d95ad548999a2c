"""
Your own table
==============

Columns of different kinds, in different units, with missing values, from a CSV file.
"""

# %%
# The file ``examples/customers.csv`` in the repository describes 600 made-up customers of a shop. It has an id,
# numbers in several units, two columns of categories, and gaps.

from pathlib import Path

import pandas as pd

import clusterwise as cw

folder = next(path for path in [Path.cwd(), *Path.cwd().parents] if (path / "examples/customers.csv").exists())
customers = pd.read_csv(folder / "examples/customers.csv")
customers.head()

# %%
# A data frame can be clustered as it is. ``notes_`` says what was done to the columns.

est = cw.Clusterer(random_state=0).fit(customers)
print(*est.preparation_.notes_, sep="\n")
print(est.n_clusters_, "clusters")

# %%
# What are these clusters? Typical values, in the units of the file:

numbers = customers.select_dtypes("number").groupby(est.labels_).median()
numbers["most frequent channel"] = customers.groupby(est.labels_)["channel"].agg(lambda values: values.mode()[0])
numbers["customers"] = pd.Series(est.labels_).value_counts()
numbers

# %%
# A picture: features on their first two principal components.

cw.plotting.ClusterDisplay.from_estimator(est, est.preparation_.transform(customers))
