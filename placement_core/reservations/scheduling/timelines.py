"""What is booked of some things over time, as columns.

A sweep over events sorted by thing and time: what ends at an instant comes before what
starts at it, so windows are half open. Each booking has its start and its end among the
events, so the running sum of amounts is, within a thing, what is booked of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

#: Things and times share one sort key; 2^40 seconds are 34,000 years.
_TIME_BITS = 40


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Timelines:
    """What is booked of things over time.

    :ivar size: how many things there are; they are numbered from 0.
    :ivar things: the thing that each booking is of.
    :ivar starts: when each begins, in seconds; ``ends`` when it has ended.
    :ivar amounts: how much each books: a row with a column for each resource counted.
    """

    size: int
    things: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    amounts: np.ndarray

    def peaks(self, start: int, end: int) -> np.ndarray:
        """Return the most that is booked of each thing at any moment of a window."""
        steps = self.steps(start, end)
        peaks = np.zeros((self.size, self.amounts.shape[1]), dtype=np.int64)
        if len(steps.things):
            first = np.flatnonzero(np.diff(steps.things, prepend=-1))
            peaks[steps.things[first]] = np.maximum.reduceat(steps.amounts, first, axis=0)
        return peaks

    def steps(self, start: int, end: int) -> Steps:
        """Return what is booked of each thing in each step of a window."""
        within = np.flatnonzero((self.starts < end) & (self.ends > start))
        things = np.tile(self.things[within], 2)
        times = np.concatenate((
            np.minimum(self.ends[within], end), np.maximum(self.starts[within], start)))
        deltas = np.concatenate((-self.amounts[within], self.amounts[within]))
        # A stable sort leaves ends, which come first, before starts; what is summed up
        # at one instant is looked at after the last of them only.
        order = np.argsort(_keys(things, times - start), kind="stable")
        keys = _keys(things, times - start)[order]
        last = np.flatnonzero(np.diff(keys, append=-1))
        return Steps(self.size, start, end, things[order][last], times[order][last],
                     np.cumsum(deltas[order], axis=0)[last])


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What is booked of things, step by step, sorted by thing and time.

    A step lasts until the next one of its thing. Before the first one, and from the last
    one on, nothing is booked of it.
    """

    size: int
    start: int
    end: int
    things: np.ndarray
    times: np.ndarray
    amounts: np.ndarray

    def minima(
        self, free: np.ndarray, empty: np.ndarray, duration: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how much each thing has free throughout a duration, by its start.

        For a thing, that grows only where a step begins with more, and shrinks only where
        the duration begins to touch a step with less: at the start of that step, less the
        duration.

        :param free: how much is free in each step; ``empty``: of each thing when nothing
            of it is booked.
        :returns: things, times and how much, sorted by thing and time; the first of
            each thing is at ``self.start``. Only times before ``self.end``.
        """
        before = np.empty_like(free)
        before[1:] = free[:-1]
        first = np.flatnonzero(np.diff(self.things, prepend=-1))
        before[first] = empty[self.things[first]]
        more, less = np.flatnonzero(free > before), np.flatnonzero(free < before)
        things = np.concatenate((np.arange(self.size), self.things[more], self.things[less]))
        times = np.concatenate((
            np.full(self.size, self.start), self.times[more], self.times[less] - duration + 1))
        starts = np.unique(_keys(things, times - self.start)[
            (times >= self.start) & (times < self.end)])
        keys = _keys(self.things, self.times - self.start)
        things, offsets = starts >> _TIME_BITS, starts & ((1 << _TIME_BITS) - 1)
        # The step that is under way when the time begins, and the last within it.
        first = np.maximum(np.searchsorted(keys, starts, side="right") - 1,
                           np.searchsorted(keys, _keys(things, np.zeros_like(offsets))))
        last = np.searchsorted(keys, _keys(things, offsets + duration), side="left")
        minima = empty[things].copy()
        booked = np.flatnonzero(first < last)
        minima[booked] = np.minimum(
            minima[booked], _range_minima(free, first[booked], last[booked]))
        return things, offsets + self.start, minima


def totals(
    things: np.ndarray, times: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return when the sum over all things changes, and what it is from then on.

    :param values: what each thing has from a time on, a number or a row of numbers;
        things and times sorted, the first time the same for all.
    :returns: times, ascending, and sums.
    """
    before = np.zeros_like(values)
    same = np.flatnonzero(np.diff(things) == 0) + 1
    before[same] = values[same - 1]
    order = np.argsort(times, kind="stable")
    sums = np.cumsum((values - before)[order], axis=0)
    last = np.flatnonzero(np.diff(times[order], append=-1))
    return times[order][last], sums[last]


def maxima(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return when the largest of several values changes, or may, and what it is from then on.

    :param parts: as ``totals`` returns them, at least one; the first time is the same for all.
    :returns: times, ascending, and the largest values.
    """
    times = np.unique(np.concatenate([part_times for part_times, _ in parts]))
    largest = parts[0][1][np.searchsorted(parts[0][0], times, side="right") - 1]
    for part_times, values in parts[1:]:
        np.maximum(largest, values[np.searchsorted(part_times, times, side="right") - 1],
                   out=largest)
    return times, largest


def _keys(things: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    keys: np.ndarray = (things.astype(np.int64) << _TIME_BITS) + offsets
    return keys


def _range_minima(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the least of ``values[first:last]`` for each pair; none is empty.

    Two runs of a power of two that overlap cover each range.
    """
    levels = np.frexp((last - first).astype(np.float64))[1] - 1
    minima = np.empty(len(first), dtype=values.dtype)
    table = values
    for level in range(int(levels.max(initial=0)) + 1):
        at = np.flatnonzero(levels == level)
        minima[at] = np.minimum(table[first[at]], table[last[at] - (1 << level)])
        table = np.minimum(table[:-(1 << level)], table[1 << level:]) \
            if len(table) > 1 << level else table
    return minima
