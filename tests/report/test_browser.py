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
PHONE = 390  # CSS pixels
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
# A frame as wide as a phone around the page, which then says how it came out.
AROUND = """<!doctype html><meta charset="utf-8"><body>
<iframe width="{width}" height="800" srcdoc="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, elements = [...page.querySelectorAll("body *")];
  const isTooWide = e => !e.closest(".wide, svg") && e.getBoundingClientRect().right > {width} + 1;
  document.title = JSON.stringify({{
    title: page.title,
    images: page.images.length,
    broken: [...page.images].filter(image => !image.naturalWidth).length,
    loaded: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name),
    wide: elements.filter(isTooWide).map(e => e.outerHTML.slice(0, 80)),
    width: page.documentElement.scrollWidth,
  }});
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


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Load a page with a profile of its own."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    return subprocess.run(
        [str(CHROMIUM), *QUIET, profile, *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize("width", [PHONE, 1200])
def test_a_browser_loads_the_page(page: Path, width: int) -> None:
    around = page.with_name(f"around{width}.html")
    text = html.escape(page.read_text(encoding="utf-8"), quote=True)
    around.write_text(AROUND.format(width=width, page=text), encoding="utf-8")
    done = browse(around, "--virtual-time-budget=5000", "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert found is not None, done.stdout[-500:]
    seen = json.loads(html.unescape(found[1]))
    assert seen["title"] == "Clusters <of> customers"
    assert seen["images"] >= 3
    assert seen["broken"] == 0
    assert seen["wide"] == []
    assert seen["width"] <= width
    assert [address for address in seen["loaded"] if not address.startswith("data:")] == []
