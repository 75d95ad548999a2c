"""A Gaussian mixture and its number of clusters by evidence: EM, mergers and splits, from any start."""
