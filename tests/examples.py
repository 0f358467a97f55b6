"""How many random worlds a test looks at, by the profile of the run (``tests``)."""

from __future__ import annotations

import os

import hypothesis

#: {profile: how many times as many, and how many at least}
_SCALES = {"repeatable": (1.0, 1), "brief": (0.05, 10), "explore": (10.0, 1)}


def draw(count: int) -> hypothesis.settings:
    """Return the settings of a test that looks at ``count`` worlds, however large they are.

    ``explore`` looks at ten times as many, ``brief`` at a twentieth.
    """
    factor, least = _SCALES[os.environ.get("HYPOTHESIS_PROFILE", "repeatable")]
    return hypothesis.settings(
        deadline=None, max_examples=max(least, round(count * factor)), database=None,
        suppress_health_check=list(hypothesis.HealthCheck))
