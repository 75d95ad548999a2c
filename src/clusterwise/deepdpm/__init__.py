"""DeepDPM: a Dirichlet-process mixture of one data set, with a network that says who belongs where.

After Ronen, Finder & Freifeld (2022). ``nets`` holds the clustering net, whose outputs grow and shrink, and
the subclustering nets; ``training`` their losses and the M-steps; ``moves`` splits and merges by the Hastings
ratio of ``dp.anchored``; ``fitting`` the rounds of all this. On raw features ``features`` has the autoencoder
that takes turns with the clustering (``alternation``); it follows a ``layout`` of the rows' ``neighbours``.
"""
