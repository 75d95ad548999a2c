"""Every benchmark: one file each, which registers it."""
