"""Options of ``[metrics]``: counters for monitoring."""

from oslo_config import cfg

GROUP = cfg.OptGroup("metrics", title="Monitoring")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Count requests, transactions, counts of usage, decisions of the quota guard and "
        "claims, and show them, with the state of leases and managers, at /metrics in the "
        "format of Prometheus, to everybody who can reach the service: names of cells are among "
        "it. Where gunicorn, uWSGI or mod_wsgi run several processes, PROMETHEUS_MULTIPROC_DIR "
        "in their environment has to name a folder that is empty when they start; "
        "placement-core serve makes one itself.",
    ),
]
