"""Every suite: files with a table ``SUITES`` from names to functions of ``quick``."""
