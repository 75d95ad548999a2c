"""Benchmarks and studies: our estimators and their peers, by ``python -m benchmarks NAME`` in a checkout.

A file in ``suites/`` names data sets, methods and what to report. The runner measures, the store keeps one
row for each method and data set, the summary turns rows into figures, and the page shows them.
"""
