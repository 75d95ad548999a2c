"""Tables as people have them, turned into numbers that can be clustered."""

from clusterwise.tables.preparation import TablePreparation

__all__ = ["TablePreparation"]
