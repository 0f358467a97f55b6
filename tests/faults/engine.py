"""What ``placement-core db check-engine`` says of a cluster's database."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placement_core.db.database import Settings
from placement_core.engine_checks import runner
from placement_core.engine_checks.checks import CHECKS
from placement_core.engine_checks.results import Result, Status


@dataclasses.dataclass(frozen=True)
class Engine:
    """A database engine, and what was seen of it.

    :ivar name: with its version.
    :ivar checks: how many there were.
    :ivar limitations: warnings, in sentences.
    :ivar failures: of what the service relies on, in sentences.
    """

    name: str
    checks: int
    limitations: Sequence[str]
    failures: Sequence[str]


def check(url: str) -> Engine:
    """Check the engine of a database."""
    name, results = runner.run(Settings(url), CHECKS)
    return Engine(name, len(results), _select(results, Status.WARNING),
                  _select(results, Status.FAILED))


def _select(results: Sequence[Result], status: Status) -> list[str]:
    return [f"check-engine, {result.name}: {result.details}"
            for result in results if result.status is status]
