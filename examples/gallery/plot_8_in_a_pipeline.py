"""
In a scikit-learn pipeline
==========================

Use cluster memberships as features of a regression model.
"""

# %%
# All estimators are scikit-learn transformers: ``transform`` returns the probability of each cluster.
# Here the target has a different level in each cluster, which a linear model of the coordinates
# cannot express.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import clusterwise as cw

X, side = make_moons(600, noise=0.08, random_state=0)
y = np.where(side == 0, 3.0, -1.0) + 0.5 * X[:, 0] + np.random.default_rng(0).normal(0, 0.3, len(X))

linear = make_pipeline(StandardScaler(), Ridge())
with_clusters = make_pipeline(
    make_union(FunctionTransformer(), cw.Clusterer(random_state=0)), StandardScaler(), Ridge()
)

# %%
# In every fold the clusters and their number are found on the training rows only.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
models = {"coordinates": linear, "coordinates and memberships": with_clusters}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    scores = cross_val_score(model, X, y, cv=5)
    print(f"{name:<28} R² = {scores.mean():.2f} ± {scores.std():.2f}")
    ax.scatter(y, cross_val_predict(model, X, y, cv=5), s=6)
    ax.set(title=name, xlabel="target", ylabel="prediction")
    ax.label_outer()
plt.show()
