"""Linkage trees of a data set, what is measured of their nodes, and cuts through them."""
