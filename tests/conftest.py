"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# No deadline: how long an example takes depends on the machine. Derandomized: a run that passes
# passes again; new examples come with a change of the test.
settings.register_profile("clusterwise", deadline=None, derandomize=True)
settings.load_profile("clusterwise")
