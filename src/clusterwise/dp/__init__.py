"""Dirichlet-process mixtures of Gaussians: the samplers, on the sufficient statistics of ``components``.

``restaurant`` is the prior over partitions, ``hyper`` the hyper-parameters and their own prior. ``gibbs`` is
Neal's algorithm 3; ``sweep``, ``anchored`` and ``subclusters`` are the moves of the split-merge sampler;
``chain`` runs either of them and ``convergence`` judges the chains.
"""
