"""Sphinx settings; `make docs` builds with warnings as errors."""

from __future__ import annotations

from clusterwise import __version__

project = "clusterwise"
author = "The clusterwise developers"
copyright = "2026, The clusterwise developers"
release = __version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
numpydoc_show_class_members = False  # autodoc shows them already
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "clusterwise"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}

# Networks and estimators share names on purpose (models.ncp.NCP, estimators.NCP).
suppress_warnings = ["ref.python"]
