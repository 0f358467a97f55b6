"""The options of the compute driver ``nova``, in a module that does not need openstacksdk."""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = cfg.OptGroup(
    "nova", title="The Nova in which reservations are made",
    help="With [reservations] compute_driver = nova: how the service logs in and finds Nova, "
    "and what it calls things there. auth_section = keystone_authtoken takes the login from "
    "that section. The user needs the role admin in a project of its own.")

_TIMEOUT_SECONDS = 30

_OWN: list[cfg.Opt] = [
    cfg.StrOpt(
        "aggregate_freepool_name", default="freepool",
        help="The host aggregate of the hosts that can be reserved. It is made when it is not "
        "there. ReservationFilter in nova-scheduler has to know it by the same name."),
    cfg.StrOpt(
        "blazar_owner", default="blazar:owner",
        help="The metadata key that tells, on the aggregate of a host reservation, which project "
        "reserved the hosts: owner_key of ReservationFilter."),
    cfg.StrOpt(
        "name_prefix", default="reservation:",
        help="What flavors of reservations are called, before the reservation's id. While there "
        "are reservations it must not change: things made under another prefix are not found "
        "any more."),
    cfg.StrOpt(
        "az_prefix", default="blazar_",
        help="The availability zone of a host reservation's aggregate, before the reservation's "
        "id. Empty: no zone, which is what a cloud needs whose hosts are in zones already: Nova "
        "lets no host be in two."),
    cfg.StrOpt(
        "image_prefix", default="reserved_",
        help="What the images are called that are made of servers before a host reservation "
        "ends, before the server's name."),
    cfg.StrOpt(
        "service_project_id",
        help="The project to which the freepool is closed (its filter_tenant_id), so that nobody "
        "without a reservation gets there. By default the project in which the service logs in; "
        "needed only where the login has none."),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return all options of the group for oslo-config-generator."""
    return [(GROUP, [
        *_OWN,
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *_connection(),
    ])]


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options of the group."""
    conf.register_group(cfg.OptGroup(GROUP.name, GROUP.title, GROUP.help))
    loading.register_auth_conf_options(conf, GROUP.name)
    conf.register_opts([*_OWN, *_connection()], group=GROUP.name)


def _connection() -> list[cfg.Opt]:
    options = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(options, timeout=_TIMEOUT_SECONDS, service_type="compute")
    return options
