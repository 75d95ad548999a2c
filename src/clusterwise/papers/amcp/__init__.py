"""AMCP: the network with its cluster-wise loop, its loss, splits and merges at the end, the estimator."""
