"""Take the picture of the report in the quick start; needs Chromium or Chrome.

Run ``python docs/pictures/report.py``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).with_suffix(".png")
CUSTOMERS = Path(__file__).resolve().parents[2] / "examples" / "customers.csv"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1000, 1250


def main() -> None:
    """Cluster the customers and photograph the top of the report."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"no browser found; install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(CUSTOMERS, folder)
        cluster = "from clusterwise.cli import main; main()"
        arguments = ["cluster", CUSTOMERS.name, "--report", "report.html"]
        subprocess.run([sys.executable, "-c", cluster, *arguments], cwd=folder, check=True)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        page = f"file://{folder}/report.html"
        size = f"--window-size={WIDTH},{HEIGHT}"
        subprocess.run([browser, *options, size, f"--screenshot={PICTURE}", page], check=True)


if __name__ == "__main__":
    main()
