"""One self-contained HTML page about a fitted estimator; needs jinja2 and matplotlib."""

from clusterwise.report.page import write_report

__all__ = ["write_report"]
