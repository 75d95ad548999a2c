"""Formulas as MathML, made while the documentation is built: browsers show it without scripts and network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

__all__ = ["setup"]


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    formula = latex2mathml.tex2mathml(node.astext().strip(), as_block=True)
    writer.body.append(f'<div class="math-block">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make ``html_math_renderer = "mathml"`` known."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
