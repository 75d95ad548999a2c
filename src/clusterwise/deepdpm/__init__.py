"""DeepDPM: a Dirichlet-process mixture of one data set, with nets that give rows their memberships.

After Ronen, Finder & Freifeld (2022). ``method`` is the paper's method on one screen, with its moves;
``nets`` has its nets and what they learn. Raw features are learned by an autoencoder that takes turns with
the clustering (``feature_learning``). ``net_method`` is what the estimator does with the rows of a data set.
"""
