"""Other packages' data and machines; each module is imported when data of its package come."""
