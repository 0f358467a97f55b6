"""Spans through OpenTelemetry's API, where ``[tracing]`` asks for them.

Until ``start`` there are no spans, OpenTelemetry is not loaded, and each function here returns at
once; what callers send as ``traceparent`` is still read and passed on (``trace_context``). Who
receives spans, and how many, is said by OpenTelemetry's environment variables, or by a tracer
provider that the process has set before.

Spans have no texts of exceptions, which may repeat what clients sent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from placement_core import errors, trace_context

#: A span of OpenTelemetry; None: there is none.
Span: TypeAlias = Any
#: What a span is told to belong together with.
Link: TypeAlias = Any
Attributes: TypeAlias = Mapping[str, str | int]
#: Whether a span is a request of a client, a call to another service, or neither.
Kind: TypeAlias = Literal["SERVER", "CLIENT", "INTERNAL"]

_NO_SPAN = contextlib.nullcontext()
_OPTION = "[tracing] enabled = true"
_PACKAGES = "pip install 'placement-core[tracing]'"
_SERVICE = "placement-core"


class _EnvironGetter:
    """Reads the headers of a WSGI request, as OpenTelemetry's ``Getter``."""

    def get(self, carrier: Mapping[str, Any], key: str) -> list[str] | None:
        """Return the values of a header; None: there is none."""
        value = carrier.get(f"HTTP_{key.upper().replace('-', '_')}")
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, Any]) -> list[str]:
        """Return the names of all headers."""
        return [name[5:].replace("_", "-").lower() for name in carrier
                if name.startswith("HTTP_")]


class _Tracing:
    """OpenTelemetry, as this process uses it."""

    def __init__(self) -> None:
        # Imported here, because it is installed and loaded only where it is wanted.
        from opentelemetry import propagate, trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_make_provider())
        self._trace = trace
        self._propagate = propagate
        self._getter: Any = _EnvironGetter()
        self._tracer = trace.get_tracer(_SERVICE)

    @contextlib.contextmanager
    def open(
        self, name: str, kind: Kind = "INTERNAL", attributes: Attributes | None = None,
        links: Sequence[Link] = (), parent: Any = None,
    ) -> Iterator[Span]:
        """Make a span of what is done inside; an exception marks it as failed."""
        with self._tracer.start_as_current_span(
            name, parent, self._trace.SpanKind[kind], attributes,
            [self._trace.Link(link) for link in links if link is not None],
            record_exception=False, set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                self.mark_failed(span, type(error).__qualname__)
                raise

    def open_server(
        self, environ: Mapping[str, Any], name: str, attributes: Attributes
    ) -> contextlib.AbstractContextManager[Span]:
        """Make the span of a request, in the trace that it comes with."""
        parent = self._propagate.extract(environ, getter=self._getter)
        return self.open(name, "SERVER", attributes, parent=parent)

    def mark_failed(self, span: Span, error_type: str) -> None:
        """Give a span the status of an error."""
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.StatusCode.ERROR)

    def get_link(self) -> Link:
        """Return what stands for the present span in others; None: there is none."""
        context = self._trace.get_current_span().get_span_context()
        return context if context.is_valid else None

    def make_headers(self) -> dict[str, str]:
        """Return the headers that tell another service of the present span."""
        headers: dict[str, str] = {}
        self._propagate.inject(headers)
        return headers


_tracing: _Tracing | None = None


def start() -> None:
    """Make spans from now on, in this process.

    :raises errors.ConfigurationError: OpenTelemetry is not installed, or one of its variables has
        a value that cannot be used.
    """
    global _tracing
    if _tracing is None:
        try:
            _tracing = _Tracing()
        except ImportError as error:
            raise errors.ConfigurationError(
                f"{_OPTION}: expected OpenTelemetry to be installed ({_PACKAGES}): {error}"
            ) from error
        except ValueError as error:
            raise errors.ConfigurationError(
                f"{_OPTION}: OpenTelemetry refuses its environment variables: {error}") from error


def _make_provider() -> Any:
    """Return a tracer provider as OpenTelemetry's environment variables describe it."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: _SERVICE}))
    provider = TracerProvider(resource=resource)
    exporter = _make_exporter()
    if exporter is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _make_exporter() -> Any:
    """Return the exporter that OpenTelemetry's environment variables name; None: there is none.

    :raises errors.ConfigurationError: they name one that we do not have.
    """
    name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "none":
        return None
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if name != "otlp":
        raise errors.ConfigurationError(
            f"OTEL_TRACES_EXPORTER = {name}: expected otlp, console or none")
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(variable)
        if protocol:
            if protocol != "http/protobuf":
                raise errors.ConfigurationError(
                    f"{variable} = {protocol}: expected http/protobuf")
            break
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def span(
    name: str, kind: Kind = "INTERNAL", attributes: Attributes | None = None,
    links: Sequence[Link] = (),
) -> contextlib.AbstractContextManager[Span]:
    """Return a context whose work is a span; an exception marks it as failed.

    :param links: of ``get_link``: the spans that it is part of beside the present one.
    """
    if _tracing is None:
        return _NO_SPAN
    return _tracing.open(name, kind, attributes, links)


def database_span(name: str, dialect: str) -> contextlib.AbstractContextManager[Span]:
    """Return a context whose work is the span of a transaction, inside another span.

    Without one there is none: a manager asks the database all day whether there is work.

    :param dialect: SQLAlchemy's name of the database system.
    """
    if _tracing is None or _tracing.get_link() is None:
        return _NO_SPAN
    return _tracing.open(name, attributes={"db.system.name": dialect})


def server_span(
    environ: Mapping[str, Any], name: str, attributes: Attributes
) -> contextlib.AbstractContextManager[Span]:
    """Return a context that is the span of a request, in the trace that it comes with.

    :param environ: of WSGI.
    """
    if _tracing is None:
        return _NO_SPAN
    return _tracing.open_server(environ, name, attributes)


def mark_failed(span: Span, error_type: str) -> None:
    """Give a span the status of an error.

    :param error_type: a class of exceptions, or a status of HTTP.
    """
    if _tracing is not None:
        _tracing.mark_failed(span, error_type)


def make_headers() -> dict[str, str]:
    """Return the headers of a call to another service that tell it about the trace."""
    return trace_context.make_headers() if _tracing is None else _tracing.make_headers()


def get_link() -> Link:
    """Return what stands for the present span in others; None: there is none."""
    return None if _tracing is None else _tracing.get_link()


def receive(environ: Mapping[str, Any]) -> str | None:
    """Return the id of the trace of the request that this thread processes from now on.

    :returns: 32 hexadecimal digits; None: the request belongs to none.
    """
    if _tracing is None:
        return trace_context.receive(environ)
    link = _tracing.get_link()
    return None if link is None else f"{link.trace_id:032x}"
