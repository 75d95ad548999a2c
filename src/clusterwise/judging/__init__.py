"""Candidate partitions of a table and what trained judges say about them."""
