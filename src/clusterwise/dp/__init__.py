"""Dirichlet-process mixtures of Gaussians: the mathematics and the samplers, on sufficient statistics alone.

``niw`` holds the Normal-Inverse-Wishart prior and all that follows from it in closed form, ``restaurant``
the prior over partitions, ``hyper`` the hyper-parameters and their own prior. ``gibbs`` is Neal's
algorithm 3; ``sweep``, ``anchored`` and ``subclusters`` are the moves of the split-merge sampler; ``chain``
runs either of them and ``convergence`` judges the chains.
"""
