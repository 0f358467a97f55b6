"""A histogram that counts once for each value, because another metric knows the sum.

It loads prometheus-client, which ``metrics`` does only where something is counted.
"""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Mapping

from prometheus_client import Histogram
from prometheus_client.core import Metric


class SumlessHistogram(Histogram):
    """A histogram whose sum stays 0 until ``fill_sums`` derives it.

    Where several processes count together, each number that changes costs as much as all else
    that a histogram does.
    """

    def observe(self, amount: float, exemplar: Mapping[str, str] | None = None) -> None:
        """Count an amount in its bucket; exemplars are not kept."""
        self._buckets[bisect.bisect_left(self._upper_bounds, amount)].inc(1)


def fill_sums(families: Iterable[Metric], histogram: str, summary: str) -> list[Metric]:
    """Return metrics that were collected, a histogram with the sums of a finer summary.

    :param histogram: the name of one that leaves its sum out.
    :param summary: the name of one that observes the same amounts, with the same labels and more.
    """
    collected = list(families)
    named = {family.name: family for family in collected}
    if histogram not in named:
        return collected
    sums = [sample for sample in named[summary].samples if sample.name == f"{summary}_sum"]
    samples = named[histogram].samples
    labels = {name for sample in samples for name in sample.labels} - {"le"}
    totals: dict[frozenset[tuple[str, str]], float] = collections.defaultdict(float)
    for sample in sums:
        totals[_select_labels(sample.labels, labels)] += sample.value
    named[histogram].samples = [
        sample._replace(value=totals[_select_labels(sample.labels, labels)])
        if sample.name == f"{histogram}_sum" else sample for sample in samples]
    return collected


def _select_labels(
    values: Mapping[str, str], names: Iterable[str]
) -> frozenset[tuple[str, str]]:
    return frozenset((name, values[name]) for name in names)
