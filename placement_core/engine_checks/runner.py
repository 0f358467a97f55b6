"""Carrying the checks out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from placement_core.db import engines
from placement_core.db.database import Settings
from placement_core.db.failures import describe_error
from placement_core.engine_checks.checks import Check
from placement_core.engine_checks.results import Broken, Limited, Result, Status
from placement_core.engine_checks.trial import Trial
from placement_core.masking import mask_text

Report = Callable[[Result], None]


def no_report(_result: Result) -> None:
    """Ignore the result."""


def run(
    settings: Settings, checks: Sequence[Check], report: Report = no_report
) -> tuple[str, list[Result]]:
    """Check an engine, with tables that are dropped again whatever happens.

    :param settings: how the service would reach the database.
    :param checks: those which are not for this engine are left out.
    :param report: is called with each result as soon as it is there.
    :returns: the name and version of the engine, and the results.
    :raises Exception: the database cannot be reached, or no table can be created there.
    """
    with _trial(settings) as trial:
        results = []
        for check in checks:
            if trial.dialect in check.dialects:
                results.append(carry_out(check, trial))
                report(results[-1])
        return str(engines.identify(trial.database)), results


def carry_out(check: Check, trial: Trial) -> Result:
    """Return the result of one check, which begins with empty tables."""
    status, details = Status.OK, ""
    try:
        trial.clear()
        check.function(trial)
    except Limited as limited:
        status, details = Status.WARNING, str(limited)
    except Broken as broken:
        status, details = Status.FAILED, str(broken)
    except Exception as error:  # noqa: BLE001  (whatever it is, the engine does not do as expected)
        status = Status.FAILED
        details = f"expected no error; seen: {type(error).__name__}: {describe_error(error)}"
    return Result(check.name, check.rule, status, mask_text(" ".join(details.split())))


@contextlib.contextmanager
def _trial(settings: Settings) -> Iterator[Trial]:
    trial = Trial(settings)
    try:
        trial.create()
        yield trial
    finally:
        trial.remove()
