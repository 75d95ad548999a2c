"""Gaussian clusters: one family of densities, one EM, one engine for splits and merges, and GaussianSearch.

``niw`` says what the Normal-Inverse-Wishart prior of a cluster gives in closed form, ``full`` and
``families`` give it; ``clusters`` are the clusters of one partition, what rows are compared with.
``mixture`` is EM and the evidence of what it finds, ``moves`` the engine, ``splits`` finds clusters that are
two, ``search`` puts these together. ``sorted_rows`` reads a data set chunk by chunk.
"""
