"""One family of clusters' densities: Gaussians with full, diagonal or spherical covariances.

``niw`` says what the Normal-Inverse-Wishart prior gives in closed form; ``full``, ``diagonal`` and
``spherical``
give it for their covariances. ``rows`` reads a data set chunk by chunk, ``clusters`` are the clusters of one
partition: what new rows are compared with.
"""
