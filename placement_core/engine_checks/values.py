"""Numbers and times."""

from __future__ import annotations

import datetime
import time

import sqlalchemy as sa

from placement_core import db
from placement_core.db import clock
from placement_core.db.metadata import utcnow
from placement_core.engine_checks.results import Broken, Limited, require
from placement_core.engine_checks.trial import Trial

_LARGE = 2 ** 62
#: Further apart than this are two clocks one of which is in another time zone.
_ZONE_SECONDS = 14 * 60
#: Clocks that something keeps in step are closer.
_STEP_SECONDS = 2.0


def sums_do_not_overflow(trial: Trial) -> None:
    """A sum that is larger than BIGINT is right, or refused; it never turns negative."""
    rows = trial.tables.rows
    for name in ("one", "two", "three"):
        trial.insert(name, amount=_LARGE)
    for what, value in (("a sum", sa.func.sum(rows.c.amount)),
                        ("an addition", sa.func.max(rows.c.amount) * 3)):
        try:
            with db.read_once(trial.context()) as session:
                seen = session.execute(sa.select(value)).scalar()
        except Exception:  # noqa: BLE001, S112  (it may be refused in any way)
            continue
        if seen is None or float(seen) != float(3 * _LARGE):
            raise Broken(f"{what} of three times 2^62 is right or refused", seen)


def numbers_of_64_bits_are_kept(trial: Trial) -> None:
    """The largest and the smallest BIGINT are kept."""
    for number in (2 ** 63 - 1, -(2 ** 63)):
        require(number, trial.read_amount(trial.insert(str(number), amount=number)), "a BIGINT")


def clock_is_utc(trial: Trial) -> None:
    """The database's clock is in UTC, whatever its time zone, and near to that of this host."""
    with db.read_once(trial.context()) as session:
        row = session.execute(sa.select(clock.now(), clock.second())).one()
    now, second = tuple(row)
    if isinstance(now, str):
        now = datetime.datetime.fromisoformat(now)
    epoch = now.replace(tzinfo=datetime.UTC).timestamp()
    if abs(epoch - second) > _STEP_SECONDS:
        raise Broken("the time in UTC and the seconds since the epoch agree",
                     f"{now} and {second}")
    difference = (now - utcnow()).total_seconds()
    if abs(difference) > _ZONE_SECONDS:
        raise Broken("the time in UTC", f"{now}, which is {difference:+.0f} s from this host's")
    if abs(difference) > _STEP_SECONDS:
        raise Limited(f"the database's clock differs from this host's by {difference:+.1f} s: "
                      "deadlines go by the database's; times in answers go by the host's")


def clock_runs_in_transactions(trial: Trial) -> None:
    """The clock goes on within a transaction, and a column keeps parts of a second."""
    rows = trial.tables.rows
    row_id = trial.insert("one")
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000)
    with db.write(trial.context()) as session:
        before = session.execute(sa.select(clock.now())).scalar()
        time.sleep(0.02)
        after = session.execute(sa.select(clock.now())).scalar()
        session.execute(sa.update(rows).where(rows.c.id == row_id).values(at=moment))
        stored = session.execute(sa.select(rows.c.at).where(rows.c.id == row_id)).scalar()
        later = session.execute(sa.select(clock.in_seconds(sa.literal(60)) > clock.now())).scalar()
    if before is None or after is None or not before < after:
        raise Broken("a later time in the second statement", f"{before}, then {after}")
    require(moment, stored, "a time with parts of a second")
    require(True, bool(later), "that in 60 seconds is later than now")
