"""Formulas as MathML, made while the documentation is built: browsers show it without scripts and network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

__all__ = ["setup"]

# What the converter of docutils gets wrong: an accent and an index of one letter end up above and below it;
# accents touch the letter, and fonts lack the macron. Browsers put no space after the name of a function.
_REPAIRS = (
    (
        r'<munderover>\s*(<mi>.*?</mi>)\s*(.*?)\s*(<mo stretchy="false">~</mo>)\s*</munderover>',
        r"<msub><mover>\1\3</mover>\2</msub>",
    ),
    (r'<mover accent="true">', "<mover>"),
    ("\u02c9", "\u00af"),
    (
        r"(<mi>(?:log|exp|cos|sin)</mi>)\s*<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>\()",
        r'\1<mspace width="0.17em"></mspace>',
    ),
)


def _mathml(formula: str, block: bool) -> str:
    made = tex2mathml(formula.strip(), as_block=block)  # raises if it does not know a command
    for pattern, repaired in _REPAIRS:
        made = re.sub(pattern, repaired, made, flags=re.DOTALL)
    return made


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block">{_mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make ``html_math_renderer = "mathml"`` known."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
