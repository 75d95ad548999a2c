"""Peak resident memory of this process.

The figure is what the operating system had to provide: interpreter and libraries included. On
Linux the mark can be set back before each data set; elsewhere it is the peak since the start of
the process, so it never falls from one data set to the next.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak_memory_mb", "reset_peak_memory"]


def reset_peak_memory() -> None:
    """Set the high-water mark back to what is in use now, where the system can do so."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_mb() -> float:
    """Return the high-water mark in MB (10^6 bytes), or NaN if the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(kilobytes) * 1024 / 1e6
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
