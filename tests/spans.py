"""The spans that this process makes, in its memory."""

from __future__ import annotations

import importlib.util
from typing import Any

import fixtures

from placement_core import tracing

INSTALLED = importlib.util.find_spec("opentelemetry") is not None
#: Why tests of spans are skipped, if they are.
REASON = "OPENTELEMETRY IS NOT INSTALLED (pip install '.[tracing]'): nobody tried the spans"

#: A process can set its provider only once.
_exporters: list[Any] = []


class Spans(fixtures.Fixture):
    """Makes spans while it is used."""

    def _setUp(self) -> None:
        if not _exporters:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import SimpleSpanProcessor
            from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

            _exporters.append(InMemorySpanExporter())
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(_exporters[0]))
            trace.set_tracer_provider(provider)
        self.useFixture(fixtures.MonkeyPatch("placement_core.tracing._tracing", None))
        tracing.start()
        _exporters[0].clear()

    def take(self) -> list[Any]:
        """Return the spans that ended since the last time, in the order of their beginning."""
        spans = sorted(_exporters[0].get_finished_spans(), key=lambda span: span.start_time)
        _exporters[0].clear()
        return spans


def find_children(spans: list[Any], parent: Any) -> list[Any]:
    """Return the spans that are directly in another one."""
    return [span for span in spans
            if span.parent is not None and span.parent.span_id == parent.context.span_id]
