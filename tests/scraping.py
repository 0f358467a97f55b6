"""Reading what the service shows Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import fixtures
from prometheus_client import parser
from prometheus_client.metrics import MetricWrapperBase

from placement_core import metrics
from placement_core.monitoring import page
from placement_core.monitoring.state import STATE, State

#: {(name without placement_core_, values of its labels in the order of their names): value}
Numbers = Mapping[tuple[str, ...], float]


class Unmeasured(fixtures.Fixture):
    """A process that has counted nothing yet, whatever tests did in it before."""

    def _setUp(self) -> None:
        self.useFixture(fixtures.MonkeyPatch("placement_core.metrics._metrics", None))


def list_metrics() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return {name without placement_core_: (type, labels)} of all metrics; they are started."""
    listed = {name: ("gauge", labels) for name, (_, labels) in STATE.items()}
    for metric in vars(metrics._metrics).values():
        metric = getattr(metric, "_metric", metric)
        if isinstance(metric, MetricWrapperBase):
            suffix = "_total" if metric._type == "counter" else ""
            listed[f"{metric._name}{suffix}".removeprefix("placement_core_")] = (
                metric._type, tuple(metric._labelnames))
    return listed


def list_labels() -> dict[str, tuple[str, ...]]:
    """Return {name: labels} of all metrics."""
    return {f"placement_core_{name}": labels for name, (_, labels) in list_metrics().items()}


def numbers(text: str) -> Numbers:
    """Read a page; buckets and times of creation are left out."""
    return {
        (sample.name.removeprefix("placement_core_"),
         *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))}


def shown(
    read_state: Callable[[], State] = dict, **environ: object
) -> tuple[str, str]:
    """Return the status and the text that this process shows."""
    statuses = []
    (body,) = page.make_page(read_state)(
        {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "QUERY_STRING": "", **environ},
        lambda status, _headers, *_: statuses.append(status))
    return statuses[0], body.decode()


def counted(ask: Callable[[], str], name: str) -> Numbers:
    """Return what is counted by a name; without the name."""
    return {key[1:]: value for key, value in numbers(ask()).items() if key[0] == name}
