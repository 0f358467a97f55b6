"""Compare all of some sources with what we have, in chunks; remember how far, and the result.

Sources are read as a whole, of each one moment, because what one of their rows means depends on
others. Kinds follow each other as a copy would have them, and the records of a kind their ids.
After each chunk, what was found and where it ended are written, so that a run that was killed is
gone on with. Its result tells of the time since it was begun.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import itertools
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import inserts
from placement_core.takeover import comparison, copying, origins, spooled, tables
from placement_core.takeover.comparison_results import FRESH
from placement_core.takeover.errors import NotWhereItWas
from placement_core.takeover.records import (
    LIMIT,
    REGISTERED_LIMIT,
    USER_LIMIT,
    Contents,
    Item,
    Outcome,
    pluralize,
)
from placement_core.takeover.spools import Spool
from placement_core.takeover.targets import SpoolTarget, Target

#: Called with (what is compared, how much is done, how much there is).
Report = Callable[[str, int, int], None]

#: How many records are compared between two looks at the database.
CHUNK = 2000
#: {kind: {id: the source that it was copied from}}.
_Owners = Mapping[str, Mapping[str, str]]
_DIFFERENCES = (Outcome.CREATE, Outcome.UPDATE, Outcome.GONE)

_runs, _findings = tables.comparisons, tables.comparison_findings

_INSERT_RUN = inserts.build_skipping_insert(_runs)
_INSERT_FINDING = sa.insert(_findings).inline()
_ADVANCE = (
    sa.update(_runs)
    .where(_runs.c.run_id == sa.bindparam("of_run"), _runs.c.source == sa.bindparam("of_source"),
           _runs.c.kind.is_not_distinct_from(sa.bindparam("last_kind")),
           _runs.c.record_id.is_not_distinct_from(sa.bindparam("last_record_id")))
    .values(compared=_runs.c.compared + sa.bindparam("more_compared"),
            differences=_runs.c.differences + sa.bindparam("more_differences"),
            left_out=_runs.c.left_out + sa.bindparam("more_left_out"),
            kind=sa.bindparam("new_kind"), record_id=sa.bindparam("new_record_id")))
_FINISH = (
    sa.update(_runs)
    .where(_runs.c.run_id == sa.bindparam("of_run"), _runs.c.source == sa.bindparam("of_source"))
    .values(finished_at=sa.bindparam("now")))
_UNFINISHED = sa.select(_runs).where(_runs.c.finished_at.is_(None)).order_by(
    _runs.c.started_at.desc(), _runs.c.run_id, _runs.c.source)
_FINDINGS = sa.select(_findings).where(
    _findings.c.run_id == sa.bindparam("of_run")).order_by(_findings.c.id)
_DELETE_OLDER = sa.delete(_runs).where(
    _runs.c.source == sa.bindparam("of_source"), _runs.c.run_id != sa.bindparam("of_run"),
    _runs.c.started_at <= sa.bindparam("before"))
_DELETE_STRAY_FINDINGS = sa.delete(_findings).where(~sa.exists().where(
    _runs.c.run_id == _findings.c.run_id, _runs.c.source == _findings.c.source))


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """A source that was read.

    :ivar name: that of its service, with what tells it from others (``Source.origin``).
    :ivar location: where it was read from, without secrets.
    :ivar kinds: the kinds of records that it has.
    :ivar own_kinds: the kinds of which no other source may have the same record.
    """

    name: str
    location: str
    kinds: Collection[str]
    contents: Contents
    own_kinds: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a comparison came to.

    :ivar differences: what is to be created or updated, and what only we have ("gone").
    :ivar left_out: how many records cannot be copied, so that it is no difference if they are not
        here: {kind: number above 0}.
    """

    differences: Sequence[Item]
    left_out: Mapping[str, int]


@dataclasses.dataclass(slots=True)
class _Run:
    """A run: a new one, or one that was killed.

    :ivar kind: the kind of the last record that was compared; None: none was.
    :ivar record_id: the id of that; None: all of the kind were compared.
    """

    id: str
    started_at: datetime.datetime
    kind: str | None = None
    record_id: str | None = None


def compare(
    ctx: Context, sides: Sequence[Side], targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (), *,
    now: Callable[[], datetime.datetime], report: Report, resume: bool = False,
) -> Result:
    """Return what differs, and how much cannot be copied.

    What was copied from other sources, and from none of these, is not compared.

    :param targets: where the records go, in the order in which they are copied.
    :param spool_targets: likewise, of kinds that have very many.
    :param now: the clock.
    :param resume: go on with a run of the same sources that did not end, unless it is stale.
    :raises NotWhereItWas: another process goes on with the same run, or has ended a later one.
    """
    run = (_find_unfinished(ctx, sides, now()) if resume else None) or _start(ctx, sides, now())
    items = _read_findings(ctx, run)
    kinds = [target.kind for target in (*targets, *spool_targets)]
    done = _count_done(run, kinds)
    owners = _list_owners(ctx, sides)
    for target in targets[done:]:
        after = run.record_id if run.kind == target.kind else None
        items += _compare_kind(ctx, run, sides, owners, target, targets, items, after, report)
    for spool_target in spool_targets[max(done - len(targets), 0):]:
        after = run.record_id if run.kind == spool_target.kind else None
        items += _compare_spools(ctx, run, sides, spool_target, items, after, report)
    _finish(ctx, run, sides, now())
    return _make_result(items, [target.kind for target in spool_targets])


def _make_result(items: Sequence[Item], counted_kinds: Sequence[str]) -> Result:
    """Return what all that was found comes to.

    :param counted_kinds: of which some of what was found is counted, chunk by chunk.
    """
    different = [item for item in items if item.outcome in _DIFFERENCES]
    left_out: dict[str, int] = collections.Counter()
    for item in items:
        if item.outcome is Outcome.LEFT_OUT:
            left_out[item.kind] += item.count
    return Result([
        *(item for item in different if item.kind not in counted_kinds),
        *(item for kind in counted_kinds
          for item in spooled.summarize(each for each in different if each.kind == kind)),
    ], left_out)


def _count_done(run: _Run, kinds: Sequence[str]) -> int:
    """Return how many kinds were compared altogether."""
    if run.kind not in kinds:
        return 0
    return kinds.index(run.kind) + (run.record_id is None)


def _list_owners(ctx: Context, sides: Sequence[Side]) -> list[_Owners]:
    """Return what belongs to others than each side."""
    return [
        copying.list_owners(ctx, side.name, side.own_kinds, [
            (other.name, other.own_kinds, other.contents) for other in sides[:place]])
        for place, side in enumerate(sides)]


def _compare_kind(
    ctx: Context, run: _Run, sides: Sequence[Side], owners: Sequence[_Owners], target: Target,
    targets: Sequence[Target], earlier: Sequence[Item], after: str | None, report: Report,
) -> list[Item]:
    """Compare the records of a kind; return what was found of those after an id."""
    kind = target.kind
    present = {kind: target.read(ctx)}
    if kind in (LIMIT, USER_LIMIT):
        # Whether a limit is refused depends on its registered limit.
        present |= {each.kind: each.read(ctx) for each in targets
                    if each.kind == REGISTERED_LIMIT}
    sources, items, left_out = _find_items(ctx, target, sides, owners, present, earlier)
    ids = sorted(sources)
    rest = ids if after is None else [id_ for id_ in ids if id_ > after]
    done = len(ids) - len(rest)
    results: list[Item] = []
    for start in range(0, len(rest), CHUNK):
        chunk = rest[start:start + CHUNK]
        of_chunk = [(sources[id_], items[id_]) for id_ in chunk if id_ in items]
        counts = collections.Counter(
            sources[id_] for id_ in chunk if not _is_gone(items.get(id_)))
        _advance(ctx, run, sides, counts, of_chunk, kind, chunk[-1])
        results += [item for _, item in of_chunk]
        done += len(chunk)
        report(pluralize(kind), done, len(ids))
    _advance(ctx, run, sides, {}, left_out, kind, None)
    return [*results, *(item for _, item in left_out)]


def _find_items(
    ctx: Context, target: Target, sides: Sequence[Side], owners: Sequence[_Owners],
    present: comparison.Present, earlier: Sequence[Item],
) -> tuple[dict[str, str], dict[str, Item], list[tuple[str, Item]]]:
    """Return what there is to know of the records of a kind.

    :returns: their sources, by id; what is not equal, by id; (source, how many are left out).
    """
    kind = target.kind
    sources: dict[str, str] = {}
    items: dict[str, Item] = {}
    left_out: list[tuple[str, Item]] = []
    elsewhere = origins.list_elsewhere(ctx, [side.name for side in sides], kind)
    for side, of_others in zip(sides, owners, strict=True):
        comparing = comparison.Comparison(
            present, copying.make_rules(ctx, [target], of_others),
            refused=comparison.list_refused((*earlier, *side.contents.left)),
            wanted=side.contents.records)
        refused = 0
        for record in side.contents.records:
            if record.kind != kind:
                continue
            item = comparison.as_difference(comparing.compare(record))
            refused += item.outcome is Outcome.REFUSED
            if item.outcome is Outcome.REFUSED and record.id in sources:
                continue  # It is another side's.
            sources[record.id] = side.name
            if item.outcome is not Outcome.EQUAL:
                items[record.id] = item
        elsewhere.update(item.id for item in side.contents.left
                         if item.kind == kind and comparison.is_in_source(item))
        left_out += [(side.name, item) for item in _make_left_out(
            kind, refused + _count_left(side, kind))]
    if any(item.kind == kind and comparison.is_of_whole_kind(item)
           for side in sides for item in side.contents.left):
        return sources, items, left_out
    owner = next(side.name for side in sides if kind in side.kinds)
    for id_, fields in present[kind].items():
        if id_ not in sources and id_ not in elsewhere and not fields.get("deleted"):
            sources[id_] = owner
            items[id_] = comparison.make_gone(kind, id_, fields)
    return sources, items, left_out


def _count_left(side: Side, kind: str) -> int:
    """Return how many records of a kind a source itself says cannot be copied."""
    return sum(item.count for item in side.contents.left
               if item.kind == kind and comparison.is_left_out(item))


def _make_left_out(kind: str, count: int) -> list[Item]:
    """Return an item for records that cannot be copied, if there are any."""
    return [Item(kind, "", "", Outcome.LEFT_OUT, count=count)] if count else []


def _compare_spools(
    ctx: Context, run: _Run, sides: Sequence[Side], target: SpoolTarget,
    earlier: Sequence[Item], after: str | None, report: Report,
) -> list[Item]:
    """Compare the records of a kind that has very many; return what was found after an id."""
    # One of the sides at most has any.
    return [
        item for side in sides for spool, _ in copying.match_spools(side.contents, [target])
        for item in _compare_spool(
            ctx, run, sides, side, spool, target, earlier, after or "", report)]


def _compare_spool(
    ctx: Context, run: _Run, sides: Sequence[Side], side: Side, spool: Spool,
    target: SpoolTarget, earlier: Sequence[Item], after: str, report: Report,
) -> list[Item]:
    """Compare the records of a kind, of which a side has very many.

    What only we have is looked for at once, when all of the side's are compared.
    """
    kind = target.kind
    tally = spooled.Tally()
    tally.add(item for item in earlier if item.kind == kind and item.outcome in _DIFFERENCES)
    results: list[Item] = []

    def advance(
        items: Iterable[Item], compared: int, left_out: int, record_id: str | None
    ) -> None:
        new_items = [
            *tally.add(item for item in items if item.outcome in _DIFFERENCES),
            *_make_left_out(kind, left_out)]
        _advance(ctx, run, sides, {side.name: compared},
                 [(side.name, item) for item in new_items], kind, record_id)
        results.extend(new_items)

    done = spool.count_until(after)
    refused = comparison.list_refused((*earlier, *side.contents.left))
    for items in spooled.compare_sorted(ctx, spool, target, refused, after=after, size=CHUNK):
        advance(items, len(items), sum(item.outcome is Outcome.REFUSED for item in items),
                items[-1].id)
        done += len(items)
        report(pluralize(kind), done, len(spool))
    advance(spooled.find_extra(ctx, spool, target), 0, _count_left(side, kind), None)
    return results


def _is_gone(item: Item | None) -> bool:
    return item is not None and item.outcome is Outcome.GONE


def _locate(sides: Sequence[Side]) -> Mapping[str, str]:
    """Return where each source was read from."""
    return {side.name: side.location for side in sides}


def _start(ctx: Context, sides: Sequence[Side], now: datetime.datetime) -> _Run:
    run = _Run(uuid.uuid4().hex, now)

    @db.retry_writes
    def insert(ctx: Context) -> None:
        with db.write(ctx) as session:
            session.execute(_INSERT_RUN, [
                {"run_id": run.id, "source": source, "location": location,
                 "started_at": _to_naive(now), "compared": 0, "differences": 0, "left_out": 0}
                for source, location in _locate(sides).items()])

    insert(ctx)
    return run


@db.retry_writes
def _find_unfinished(ctx: Context, sides: Sequence[Side], now: datetime.datetime) -> _Run | None:
    """Return the newest run of the same sources that did not end and is not stale.

    One that an earlier release began has not counted what cannot be copied: it is none of them.
    """
    wanted = _locate(sides)
    with db.read_once(ctx) as session:
        rows = session.execute(_UNFINISHED).all()
    for run_id, group in itertools.groupby(rows, lambda row: row.run_id):
        of_run = list(group)
        started_at = _to_utc(of_run[0].started_at)
        if ({row.source: row.location for row in of_run} == wanted
                and now - started_at <= FRESH
                and all(row.left_out is not None for row in of_run)):
            return _Run(run_id, started_at, of_run[0].kind, of_run[0].record_id)
    return None


@db.retry_writes
def _advance(
    ctx: Context, run: _Run, sides: Sequence[Side], compared: Mapping[str, int],
    of_chunk: Sequence[tuple[str, Item]], kind: str, record_id: str | None,
) -> None:
    """Write what a chunk came to, and where the run is now.

    :param compared: {source: how many of its records}.
    :param of_chunk: (source, what is not equal, or how much is left out).
    :param record_id: where the chunk ends; None: the kind ends.
    :raises NotWhereItWas: somebody else has written something of the run; or this process, in a
        transaction whose COMMIT was lost.
    """
    differences = _count_records(of_chunk, _DIFFERENCES)
    left_out = _count_records(of_chunk, (Outcome.LEFT_OUT,))
    with db.write(ctx) as session:
        # First of all: whoever ends a later run waits for this, and then deletes all findings.
        for source in _locate(sides):
            if not session.execute(_ADVANCE, {
                    "of_run": run.id, "of_source": source,
                    "last_kind": run.kind, "last_record_id": run.record_id,
                    "more_compared": compared.get(source, 0),
                    "more_differences": differences[source],
                    "more_left_out": left_out[source],
                    "new_kind": kind, "new_record_id": record_id}).rowcount:
                raise NotWhereItWas(source)
        if of_chunk:
            session.execute(_INSERT_FINDING, [
                {"run_id": run.id, "source": source, "kind": item.kind, "record_id": item.id,
                 "name": item.name, "outcome": item.outcome.value, "reason": item.reason,
                 "records": item.count, "differences": json.dumps(
                     dict(item.differences), ensure_ascii=False, default=_make_plain)}
                for source, item in of_chunk])
    run.kind, run.record_id = kind, record_id


def _count_records(
    of_chunk: Iterable[tuple[str, Item]], outcomes: Collection[Outcome]
) -> Mapping[str, int]:
    """Return how many records have one of some outcomes: {source: number}, 0 for all others."""
    counts: dict[str, int] = collections.Counter()
    for source, item in of_chunk:
        if item.outcome in outcomes:
            counts[source] += item.count
    return counts


@db.retry_writes
def _read_findings(ctx: Context, run: _Run) -> list[Item]:
    """Return what a run that is gone on with has found."""
    if run.kind is None:
        return []
    with db.read_once(ctx) as session:
        return [
            Item(row.kind, row.record_id, row.name, Outcome(row.outcome), row.reason, {
                name: (ours, theirs)
                for name, (ours, theirs) in json.loads(row.differences).items()},
                count=row.records)
            for row in session.execute(_FINDINGS, {"of_run": run.id})]


@db.retry_writes
def _finish(ctx: Context, run: _Run, sides: Sequence[Side], now: datetime.datetime) -> None:
    """Stamp a run; forget those before, and findings of which there is no run.

    :raises NotWhereItWas: somebody has ended a later run, and forgot this one.
    """
    with db.write(ctx) as session:
        for source in _locate(sides):
            if not session.execute(_FINISH, {
                    "of_run": run.id, "of_source": source, "now": _to_naive(now)}).rowcount:
                raise NotWhereItWas(source)
            session.execute(_DELETE_OLDER, {
                "of_source": source, "of_run": run.id, "before": _to_naive(run.started_at)})
        session.execute(_DELETE_STRAY_FINDINGS)


def _to_naive(at: datetime.datetime) -> datetime.datetime:
    return at.astimezone(datetime.UTC).replace(tzinfo=None)


def _to_utc(at: datetime.datetime) -> datetime.datetime:
    return at.replace(tzinfo=datetime.UTC)


def _make_plain(value: Any) -> Any:
    """Return what JSON has for a value of a field."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
