"""How a shadow went: counts, causes, latencies."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping

from placement_core.shadow.modes import Mode, Side

#: The names of counts; those of causes and noise come after a prefix.
REQUESTS, WRITES = "requests", "writes"
EQUAL, APPLIED, OVERLAPPED, REREAD = "equal", "applied", "overlapped", "reread"
CAUSE, NOISE, ERRORS = "cause:", "noise:", "errors:"

#: So much longer is what each bucket of durations holds than what the one before holds: the
#: error of a percentile.
_STEP = 1.05
_SHORTEST_SECONDS = 0.00005
PERCENTILES = (50, 95, 99)


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """The last difference of a cause."""

    cause: str
    method: str
    target: str
    upstream: str
    ours: str
    at: str


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """How a shadow went.

    :ivar requests: what clients asked.
    :ivar writes: those of them that were acknowledged.
    :ivar applied: writes that the second side answered as the first did.
    :ivar equal: reads that both sides answered alike.
    :ivar overlapped: reads that were not compared: a write ran beside them, or what they are
        about is about to be read again. And writes that the second side refused because it had
        them: their objects were read again while the first side carried them out.
    :ivar different: {cause: how often}.
    :ivar noise: {name of known noise: how often}, in answers that count as equal.
    :ivar errors: {side: how often it did not answer, or with 5xx}.
    :ivar latencies: {side: {percentile: milliseconds}}; empty without any.
    :ivar reread: how many objects were read again.
    :ivar unresolved: what still differs: {object: why}.
    :ivar waiting: writes that are to be applied.
    """

    mode: Mode
    requests: int
    writes: int
    applied: int
    equal: int
    overlapped: int
    different: Mapping[str, int]
    noise: Mapping[str, int]
    errors: Mapping[Side, int]
    latencies: Mapping[Side, Mapping[int, float]]
    reread: int
    unresolved: Mapping[str, str]
    waiting: int
    examples: tuple[Example, ...]


def find_bucket(seconds: float) -> int:
    """Return the number of the bucket that counts a duration."""
    return max(0, math.ceil(math.log(max(seconds, 1e-9) / _SHORTEST_SECONDS, _STEP)))


def find_percentiles(buckets: Mapping[int, int]) -> dict[int, float]:
    """Return {percentile: milliseconds} of durations that were counted in buckets."""
    total = sum(buckets.values())
    percentiles: dict[int, float] = {}
    passed = 0
    for bucket, count in sorted(buckets.items()):
        passed += count
        for percentile in PERCENTILES:
            if percentile not in percentiles and passed * 100 >= percentile * total:
                percentiles[percentile] = round(
                    _SHORTEST_SECONDS * _STEP**bucket * 1000, 2)
    return percentiles


def select(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts whose names begin with a prefix, without it; the largest first."""
    chosen = Counter({name.removeprefix(prefix): count for name, count in counts.items()
                      if name.startswith(prefix)})
    return dict(chosen.most_common())
