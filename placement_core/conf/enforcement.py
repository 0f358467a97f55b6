"""Options of ``[enforcement]``: the rules that refuse leases, with Blazar's names."""

from oslo_config import cfg

GROUP = cfg.OptGroup("enforcement", title="Rules that leases are refused by")

_INSTEAD = "The whole address that is asked {}, instead of external_service_endpoint{}."

OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled_filters",
        default=["MaxLeaseDurationFilter", "ExternalServiceFilter"],
        help="Which of these judge leases, in this order. Without the options below they "
        "refuse nothing.",
    ),
    cfg.IntOpt(
        "max_lease_duration",
        min=-1,
        default=-1,
        help="How long a lease can be at most, in seconds. -1: as long as somebody wants.",
    ),
    cfg.ListOpt(
        "max_lease_duration_exempt_project_ids",
        default=[],
        help="Projects whose leases can be longer.",
    ),
    cfg.StrOpt(
        "external_service_endpoint",
        default="",
        help="The address of a service that is asked about each lease, with POST to "
        "/check-create and /check-update below it, and told with POST to /on-end when one has "
        "ended. Empty: none is.",
    ),
    cfg.StrOpt(
        "external_service_check_create",
        default="",
        help=_INSTEAD.format("before a lease is made", "/check-create"),
    ),
    cfg.StrOpt(
        "external_service_check_update",
        default="",
        help=_INSTEAD.format("before a lease is changed", "/check-update"),
    ),
    cfg.StrOpt(
        "external_service_on_end",
        default="",
        help=_INSTEAD.format("(told) after a lease has ended", "/on-end"),
    ),
    cfg.StrOpt(
        "external_service_token",
        default="",
        secret=True,
        help="What that service gets as X-Auth-Token. Empty: no such header.",
    ),
    cfg.StrOpt(
        "external_service_auth_url",
        default="",
        help="What that service is told as auth_url: where users of this cloud log in.",
    ),
    cfg.StrOpt(
        "external_service_region_name",
        default="",
        help="What that service is told as region_name.",
    ),
    cfg.FloatOpt(
        "external_service_timeout_seconds",
        min=0.1,
        max=600.0,
        default=10.0,
        help="For how long that service may be silent, in seconds; then the lease is refused "
        "with 503.",
    ),
    cfg.StrOpt(
        "external_service_cafile",
        default="",
        help="A file of certificates that the service's own is checked with; empty: those of "
        "the system.",
    ),
    cfg.BoolOpt(
        "external_service_insecure",
        default=False,
        help="Whether the service's certificate is not checked at all.",
    ),
]
