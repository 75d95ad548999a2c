"""Measurements with a shape of their own: one file per study, which registers it."""
