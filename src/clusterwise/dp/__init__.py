"""Dirichlet-process mixtures of Gaussians: the samplers, on the sufficient statistics of ``gaussian``.

``chain`` is the method: it warms up by ``subclusters``, then draws by the moves of ``exact_moves`` and
judges the chains. ``state`` is where a chain is, with the hyper-parameters and their prior; ``blocks`` how it
reaches its rows, in memory or elsewhere.
"""
