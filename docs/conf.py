"""Sphinx settings; `make docs` builds with warnings as errors."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from clusterwise import __version__

sys.path.insert(0, str(Path(__file__).parent))

from benchmark_pages import write_pages

write_pages()

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
    "mathml",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "results/_*.md", "pictures"]
templates_path = ["_templates"]

html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
numpydoc_show_class_members = False  # autodoc shows them already
numpydoc_class_members_toctree = False

# The examples run while the documentation is built; their warnings are part of what they show.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),
}
# Readers need the words of a warning, not where the documentation was built.
warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
# What matplotlib says about plt.show() without a screen.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "pydata_sphinx_theme"
html_title = "clusterwise"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
# Pages without parts need no navigation between these.
html_sidebars = {name: [] for name in ("install", "quick_start", "which_estimator")}
raw_results = sorted(page.stem for page in Path(__file__).with_name("results").glob("[!_]*.md"))
wide_pages = ["benchmarks", "more_benchmarks", *(f"results/{name}" for name in raw_results)]
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    # Wide tables need the room.
    "secondary_sidebar_items": {"**": ["page-toc"], **{name: [] for name in wide_pages}},
    "header_links_before_dropdown": 9,
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
}

# Networks and estimators share names on purpose (models.ncp.NCP, estimators.NCP).
suppress_warnings = ["ref.python"]
