"""Options of ``[dashboard]``: pages for people."""

from oslo_config import cfg

GROUP = cfg.OptGroup("dashboard", title="Pages for people")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Serve pages for people at /dashboard: whether there is room, what projects may "
        "have, and when something fits (pip install 'placement-core[dashboard]'). They show what "
        "the caller may read by the policy of the capacity API, and change nothing. With "
        "auth_strategy = keystone people log in there, at the Keystone that [keystone_authtoken] "
        "names. With noauth2, who opens the pages is the user admin.",
    ),
]
