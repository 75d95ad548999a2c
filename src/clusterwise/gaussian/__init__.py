"""Gaussian clusters: one family of densities, one EM, one engine for splits and merges, and GaussianSearch.

``niw`` says what the Normal-Inverse-Wishart prior of a cluster gives in closed form, and ``families`` gives
it for full, diagonal and spherical covariances; ``clusters`` are those of one partition, what rows are
compared with. ``mixture`` is EM and the evidence of what it finds, ``moves`` the engine, ``splits`` finds
clusters that are two, ``search`` puts these together.
"""
