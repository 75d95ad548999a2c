"""Dirichlet-process mixtures of Gaussians: the mathematics and the samplers, on sufficient statistics alone.

``niw`` says what the Normal-Inverse-Wishart prior gives in closed form; ``full``, ``diagonal`` and
``spherical`` give it for their covariances. ``restaurant`` is the prior over partitions, ``hyper`` the
hyper-parameters and their own prior. ``gibbs`` is Neal's algorithm 3; ``sweep``, ``anchored`` and
``subclusters`` are the moves of the split-merge sampler; ``chain`` runs either of them and ``convergence``
judges the chains.
"""
