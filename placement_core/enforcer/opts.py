"""The options of ``[oslo_limit]``: those of oslo.limit, so that existing sections keep working."""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "oslo_limit"


class _SharedOpt(cfg.StrOpt):
    """An option that oslo.limit may register, too, before or after this library.

    A process may use both libraries during a transition, and oslo.config refuses a second option
    of the same name even if only the help differs.
    """

    def __ne__(self, another: object) -> bool:
        """Compare the properties that affect the value."""
        return not (
            isinstance(another, cfg.Opt)
            and (self.dest, self.default) == (another.dest, another.default))


_OPTIONS: list[cfg.Opt] = [
    _SharedOpt(
        "endpoint_id",
        help="The id of this service's endpoint in the catalog: it says for which service "
        "and region the limits count. With it, the other endpoint options are not read."),
    _SharedOpt(
        "endpoint_service_type",
        help="Without endpoint_id: the type of this service in the catalog, such as compute."),
    _SharedOpt(
        "endpoint_service_name",
        help="Without endpoint_id: the name of this service in the catalog, such as nova."),
    _SharedOpt(
        "endpoint_region_name",
        help="Without endpoint_id: the region of this service's endpoint; needed where the "
        "service has endpoints in several regions."),
    _SharedOpt(
        "endpoint_interface",
        default="public",
        choices=["public", "publicURL", "internal", "internalURL", "admin", "adminURL"],
        help="Without endpoint_id: which of the service's endpoints to look for. The "
        "spellings that end in URL mean the same."),
    cfg.StrOpt(
        "source",
        default="auto",
        choices=[
            ("auto", "find out at the first question"),
            ("capacity", "placement_core: one question, every enforcement model"),
            ("keystone", "Keystone: the flat model only"),
        ],
        help="Who answers at the identity endpoint (or at endpoint_override) what is "
        "allowed. Set it to spare auto its one question at start."),
    cfg.FloatOpt(
        "cache_seconds",
        default=0,
        min=0,
        help="For how long an answer about limits is used without asking again whether it "
        "changed. 0 asks for each decision, which is cheap where the answer "
        "carries an ETag (placement_core's does); above a Keystone, which has none, a few "
        "seconds save most of the requests, and a changed limit counts that much later."),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[oslo_limit]``, including those of keystoneauth."""
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP, include_deprecated=False)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(_OPTIONS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for oslo-config-generator, with those of password login."""
    return [(GROUP, [
        *_OPTIONS,
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ])]
