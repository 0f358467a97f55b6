"""Options of ``[tracing]``: spans for a collector."""

from oslo_config import cfg

GROUP = cfg.OptGroup("tracing", title="Traces")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Make spans of requests, transactions, groups of writes, refreshes of indexes, calls "
        "to other services and events of leases, through OpenTelemetry (pip install "
        "'placement-core[tracing]'). Where they go and how many of them is said by "
        "OpenTelemetry's own environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and "
        "OTEL_TRACES_SAMPLER.",
    ),
]
