"""Everything that can be measured: one file per family, each registers its entries."""
