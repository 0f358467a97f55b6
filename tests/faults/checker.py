"""Finds what must not be in what clients noted and in what is there in the end.

Every function returns sentences, each about one thing that is wrong.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.faults.history import (
    ANYTHING,
    Answer,
    Event,
    Held,
    Outcome,
    Read,
    Version,
    Write,
    show,
)

#: How many events of an object a sentence about it names.
_LATEST = 5


@dataclasses.dataclass
class _Object:
    """What an object may be, as far as its client can know.

    :ivar possible: what it may be now.
    :ivar pending: what it may become later, because of writes without an answer.
    :ivar latest: the last events, for whoever looks into a failure.
    """

    possible: set[Hashable]
    pending: set[Hashable] = dataclasses.field(default_factory=set)
    latest: collections.deque[Write | Read] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=_LATEST))

    def write(self, write: Write) -> None:
        if write.outcome is Outcome.DONE:
            self.possible = {write.value}
            if write.guarded:
                self.pending.clear()
            self.possible |= self.pending
        elif write.outcome is Outcome.UNKNOWN:
            self.possible.add(write.value)
            self.pending.add(write.value)

    def may_be(self, value: Hashable) -> bool:
        return value in self.possible or ANYTHING in self.possible

    def read(self, value: Hashable) -> None:
        self.possible = {value} | self.pending

    def describe_latest(self) -> str:
        return f"before: {', '.join(map(str, self.latest)) or 'nothing'}"


def check_objects(
    events: Iterable[Event], before: Mapping[str, Hashable], absent: Hashable,
    final: Mapping[str, Hashable],
) -> list[str]:
    """Find objects that are not what acknowledged writes made of them.

    :param events: those of one object in their order.
    :param before: what objects were at first; others were absent.
    :param absent: what an object is that is not there.
    :param final: what objects are in the end.
    """
    faults = []
    objects: dict[str, _Object] = {}
    for event in events:
        if isinstance(event, Version):
            continue
        known = objects.setdefault(event.name, _Object({before.get(event.name, absent)}))
        if isinstance(event, Write):
            known.write(event)
        else:
            if not known.may_be(event.value):
                faults.append(
                    f"{event.name} was read as {show(event.value)} at {event.began:.3f}, and can "
                    f"only be {_show_all(known.possible)}; {known.describe_latest()}")
            known.read(event.value)
        known.latest.append(event)
    for name, known in objects.items():
        value = final.get(name, absent)
        if not known.may_be(value):
            faults.append(f"{name} is {show(value)} in the end, and can only be "
                         f"{_show_all(known.possible)}; {known.describe_latest()}")
    strangers = {name for name, value in final.items() if value != absent} - objects.keys()
    faults += [f"{name} is there, and nobody made it" for name in sorted(strangers - set(before))]
    return faults


class StaleTime(NamedTuple):
    """A time in which a server may say what was before the last write.

    :ivar server: its port.
    """

    server: int
    began: float
    ended: float


def list_stale_reads(
    events: Iterable[Event], absent: Hashable, stale_times: Sequence[StaleTime]
) -> list[Read]:
    """Return reads in such times of what an object was right before an acknowledged write.

    :param events: those of one object in their order.
    """
    stale = []
    objects: dict[str, _Object] = {}
    #: {name: what it may have been before the last acknowledged write}
    earlier: dict[str, set[Hashable]] = {}
    for event in events:
        if isinstance(event, Version):
            continue
        known = objects.setdefault(event.name, _Object({absent}))
        if isinstance(event, Write):
            if event.outcome is Outcome.DONE:
                earlier[event.name] = set(known.possible)
            known.write(event)
        elif (not known.may_be(event.value) and event.value in earlier.get(event.name, ())
              and _is_stale(event, stale_times)):
            stale.append(event)
        else:
            known.read(event.value)
    return stale


def _is_stale(read: Read, stale_times: Iterable[StaleTime]) -> bool:
    """Return whether a read was in a time in which its server may say what was before."""
    return any(read.server == time.server and time.began <= read.began <= time.ended
               for time in stale_times)


def check_versions(events: Iterable[Event]) -> list[str]:
    """Find versions of objects that were lower than one that somebody had seen before."""
    faults = []
    by_name = collections.defaultdict(list)
    for event in events:
        if isinstance(event, Version):
            by_name[event.name].append(event)
    for name, versions in by_name.items():
        ended = iter(sorted(versions, key=lambda version: version.ended))
        earlier, highest = next(ended, None), -1
        for version in sorted(versions, key=lambda version: version.began):
            while earlier is not None and earlier.ended < version.began:
                highest = max(highest, earlier.number)
                earlier = next(ended, None)
            if version.number < highest:
                faults.append(f"{name} had version {version.number} at {version.began:.3f}, after "
                             f"it had {highest}")
    return faults


def check_tags(events: Iterable[Event], stale_times: Sequence[StaleTime] = ()) -> list[str]:
    """Find entity tags that stood for two values, or came back after a newer one.

    :param events: those of one object in their order.
    """
    faults = []
    values: dict[tuple[str, str], Hashable] = {}
    #: {(object, server): its tags, the newest one last}
    tags: dict[tuple[str, int | None], list[str]] = collections.defaultdict(list)
    for event in events:
        if not isinstance(event, Read) or event.tag is None or _is_stale(event, stale_times):
            continue
        value = values.setdefault((event.name, event.tag), event.value)
        if value != event.value:
            faults.append(f"{event.name} had the tag {event.tag} with {show(value)}, and at "
                          f"{event.began:.3f} with {show(event.value)}")
        of_server = tags[event.name, event.server]
        if event.tag not in of_server:
            of_server.append(event.tag)
        elif event.tag != of_server[-1]:
            faults.append(f"{event.name} had the tag {event.tag} again at {event.began:.3f}, "
                          f"after {of_server[-1]}")
    return faults


def check_together(
    events: Iterable[Event], absent: Hashable, final: Mapping[str, Hashable]
) -> list[str]:
    """Find groups of new objects of which a part is there in the end.

    Only groups whose objects were not written again.
    """
    groups: dict[str, list[Write]] = collections.defaultdict(list)
    written: collections.Counter[str] = collections.Counter()
    for event in events:
        if isinstance(event, Write):
            written[event.name] += 1
            if event.together is not None:
                groups[event.together].append(event)
    faults = []
    for group, writes in groups.items():
        if any(written[write.name] > 1 for write in writes):
            continue
        there = sum(final.get(write.name, absent) != absent for write in writes)
        if there not in (0, len(writes)):
            faults.append(f"{group}: {there} of {len(writes)} are there")
    return faults


@dataclasses.dataclass(frozen=True, slots=True)
class _Hold:
    """What an object had for certain.

    :ivar began: when that was acknowledged.
    :ivar ended: when something else was asked for.
    """

    name: str
    held: Held
    began: float
    ended: float


def _list_holds(events: Iterable[Event]) -> Iterator[_Hold]:
    open_: dict[str, Write] = {}
    for event in events:
        if not isinstance(event, Write) or event.outcome is Outcome.REFUSED:
            continue
        begun = open_.pop(event.name, None)
        if begun is not None:
            yield _Hold(event.name, begun.value, begun.ended, event.began)  # type: ignore[arg-type]
        if event.outcome is Outcome.DONE and event.value:
            open_[event.name] = event
    for begun in open_.values():
        yield _Hold(begun.name, begun.value, begun.ended, math.inf)  # type: ignore[arg-type]


def check_capacity(
    events: Iterable[Event], capacity: Mapping[tuple[str, str], int]
) -> list[str]:
    """Find moments in which more was held for certain than a provider has.

    :param capacity: {(provider, resource class): amount}.
    """
    steps: dict[tuple[str, str], list[tuple[float, int]]] = collections.defaultdict(list)
    for hold in _list_holds(events):
        for provider, resource_class, amount in hold.held:
            steps[provider, resource_class] += [(hold.began, amount), (hold.ended, -amount)]
    faults = []
    for key, of_inventory in steps.items():
        used = 0
        for moment, step in sorted(of_inventory):
            used += step
            if used > capacity.get(key, 0):
                faults.append(f"{' '.join(key)}: {used} of {capacity.get(key, 0)} were held at "
                             f"{moment:.3f}")
                break
    return faults


def check_quota(
    events: Sequence[Event], limit: str, before: int, resource_class: str,
    members: Iterable[str],
) -> list[str]:
    """Find claims that were acknowledged although they exceeded every limit that there was.

    :param limit: the name of the limit's object, whose values are integers.
    :param members: the consumers that count against it.
    """
    members = set(members)
    of_members = [event for event in events if event.name in members]
    limits = sorted(
        (event for event in events if isinstance(event, Write) and event.name == limit
         and event.outcome is not Outcome.REFUSED), key=lambda write: write.began)
    # Arrays, because a play of an hour has some ten thousand of each.
    holds = list(_list_holds(of_members))
    names = np.array([hold.name for hold in holds])
    began_at = np.array([hold.began for hold in holds])
    ended_at = np.array([hold.ended for hold in holds])
    amounts = np.array([_count(hold.held, resource_class) for hold in holds], dtype=int)
    faults = []
    for name, growth, began, ended in _list_growths(of_members, resource_class):
        allowed = _find_highest(limits, before, began, ended)
        used = growth + int(amounts[
            (began_at <= began) & (ended_at >= ended) & (names != name)].sum())
        if used > allowed:
            faults.append(f"{name}: {used} of {resource_class} were used at {ended:.3f}, and "
                         f"{allowed} were the most that was allowed")
    return faults


def _list_growths(
    events: Iterable[Event], resource_class: str
) -> Iterator[tuple[str, int, float, float]]:
    """Yield acknowledged writes after which an object has more for certain than before."""
    known: dict[str, int | None] = {}
    for event in events:
        if not isinstance(event, Write) or event.outcome is Outcome.REFUSED:
            continue
        if event.outcome is Outcome.UNKNOWN:
            known[event.name] = None
            continue
        amount = _count(event.value, resource_class)  # type: ignore[arg-type]
        before = known.get(event.name, 0)
        known[event.name] = amount
        if before is not None and amount > before:
            yield event.name, amount, event.began, event.ended


def _find_highest(limits: Sequence[Write], before: int, began: float, ended: float) -> int:
    """Return the highest value that a limit may have had in some moment of a span.

    :param limits: writes of it, by the time at which they began.
    """
    begun = limits[:bisect.bisect_right(limits, ended, key=lambda write: write.began)]
    # Those without an answer may come at any time.
    values = [write.value for write in begun if write.outcome is Outcome.UNKNOWN]
    for write in reversed(begun):
        values.append(write.value)
        if write.outcome is Outcome.DONE and write.ended < began:
            break
    else:
        values.append(before)
    return int(max(values))  # type: ignore[type-var]


def _count(held: Held, resource_class: str) -> int:
    return sum(amount for _, name, amount in held if name == resource_class)


def check_answers(answers: Iterable[Answer], most_seconds: float) -> list[str]:
    """Find answers that no client should get while things go wrong.

    :param most_seconds: how long a request may take.
    """
    wrong: collections.Counter[str] = collections.Counter()
    for answer in answers:
        if answer.ended - answer.began > most_seconds:
            wrong[f"{answer.operation}: an answer took more than {most_seconds:g} s"] += 1
        if answer.status is not None and answer.status >= 500 and answer.status != 503:
            wrong[f"{answer.operation}: {answer.status}"] += 1
        if answer.status == 503 and not answer.retry_after:
            wrong[f"{answer.operation}: 503 without Retry-After"] += 1
    return [f"{what} ({times} times)" for what, times in sorted(wrong.items())]


def find_longest_silence(answers: Iterable[Answer], until: float) -> float:
    """Return for how many seconds a client had no answer but 503s at most."""
    last: dict[str, float] = {}
    longest = 0.0
    for answer in sorted(answers, key=lambda answer: answer.ended):
        began = last.setdefault(answer.client, answer.began)
        if answer.status is not None and answer.status < 500:
            longest = max(longest, answer.ended - began)
            last[answer.client] = answer.ended
    return max([longest, *(until - moment for moment in last.values())])


def check_silence(answers: Iterable[Answer], until: float, seconds: float) -> list[str]:
    """Find whether a client had no answer but 503s for longer than some seconds."""
    longest = find_longest_silence(answers, until)
    if longest <= seconds:
        return []
    return [f"a client had no answer but 503s for {longest:.1f} s, more than {seconds:g} s"]


def _show_all(values: Iterable[Any]) -> str:
    return " or ".join(sorted(map(show, values)))

