"""Options of ``[api]``: who may call, and how much they may send."""

from oslo_config import cfg

GROUP = cfg.OptGroup("api", title="The HTTP API")

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "tokens are validated by Keystone; see [keystone_authtoken]"),
            ("noauth2", "the token is believed: X-Auth-Token: USER[:PROJECT]"),
        ],
        deprecated_group="DEFAULT",
        help="How callers are authenticated. noauth2 checks nothing: the user admin gets the "
        "role admin, and a header X-Roles gives any other. Use it on a machine of your own "
        "for a trial, never where others can reach the service.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=16 * 1024 * 1024,
        min=1024,
        help="The largest request body in bytes; larger ones are refused with 413. Raise it "
        "when a reshape of a very large provider tree does not fit.",
    ),
]
