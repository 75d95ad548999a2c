"""A real browser loads the page: no errors, no network, nothing wider than a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clusterwise as cw
from clusterwise.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to load the page")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever it asks for, nobody answers
]
# Frames as wide as a phone and as a desk around the page, which then say how it came out.
WIDTHS = (390, 1200)  # CSS pixels
AROUND = """<!doctype html><meta charset="utf-8"><body>{frames}
<script>
const frames = [...document.querySelectorAll("iframe")];
onload = () => {{
  document.title = JSON.stringify(frames.map(frame => {{
    const page = frame.contentDocument, elements = [...page.querySelectorAll("body *")];
    const isTooWide = e => !e.closest(".wide, svg") && e.getBoundingClientRect().right > frame.width;
    return {{
      title: page.title,
      images: page.images.length,
      broken: [...page.images].filter(image => !image.naturalWidth).length,
      loaded: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name),
      wide: elements.filter(isTooWide).map(e => e.outerHTML.slice(0, 80)),
      width: page.documentElement.scrollWidth,
    }};
  }}));
}};
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 60)
    frame = pd.DataFrame(
        {
            "customer_id": np.arange(180) + 1000,
            "income": np.exp(10 + 0.2 * rng.normal(size=180) + group),
            "a_rather_long_name_of_a_column_that_nobody_shortened": rng.normal(size=180) - 5 * (group == 1),
            "plan": np.array(["basic", "plus", "pro"])[group],
            "visits": rng.normal(size=180) + 6 * (group == 2),
        }
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_report(cw.Clusterer(random_state=0).fit(frame), frame, path, title="Clusters <of> customers")
    return path


def test_a_browser_loads_the_page(page: Path) -> None:
    around = page.with_name("around.html")
    text = html.escape(page.read_text(encoding="utf-8"), quote=True)
    frames = [f'<iframe width="{width}" height="800" srcdoc="{text}"></iframe>' for width in WIDTHS]
    around.write_text(AROUND.format(frames="".join(frames)), encoding="utf-8")
    own = [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *QUIET, *own, around.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r"<title>(\[\{.*?\}\])</title>", done.stdout)
    assert found is not None, done.stdout[-500:]
    for width, seen in zip(WIDTHS, json.loads(html.unescape(found[1])), strict=True):
        assert seen["title"] == "Clusters <of> customers"
        assert seen["images"] >= 3
        assert seen["broken"] == 0
        assert seen["wide"] == []
        assert seen["width"] <= width
        assert [address for address in seen["loaded"] if not address.startswith("data:")] == []
