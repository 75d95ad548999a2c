"""DeepDPM: a Dirichlet-process mixture of one data set, with nets that give rows their memberships.

After Ronen, Finder & Freifeld (2022). ``method`` is the paper's method, one screen; ``nets`` holds the nets,
``net_training`` their losses and the M-steps, ``split_merge`` the moves. Raw features are learned by an
``autoencoder`` that follows a layout of the rows (``row_layout``) and takes turns with the clustering.
"""
