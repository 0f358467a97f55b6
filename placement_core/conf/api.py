"""Options of ``[api]``: authentication, and the sizes of requests."""

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
    cfg.BoolOpt(
        "allow_remote_noauth2",
        default=False,
        help="Whether noauth2 answers callers on other machines too, and proxies. Without it, "
        "whoever is not at a loopback address (127.0.0.1, ::1) is refused with 403, and so is "
        "what comes through a Unix socket or has a header of proxies (Forwarded, Via, "
        "X-Forwarded-For and the like). A proxy on the machine that adds no such header cannot "
        "be told from a caller on it. Everybody who reaches the service is an administrator "
        "then: set it only in a network of your own, for a trial.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=16 * 1024 * 1024,
        min=1024,
        help="The largest request body in bytes; larger ones are refused with 413. Only "
        "operations on many things at once (POST /allocations, POST /reshaper, lists of limits) "
        "take as much; others have bounds of their own, which this one lowers, too. Raise it "
        "when a reshape of a very large provider tree does not fit, and the bound of the proxy "
        "with it.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests_per_project",
        default=0,
        min=0,
        help="How many requests of one project a worker process works on at a time; further "
        "ones are refused with 429 and Retry-After, so that one project's scripts leave others "
        "their share. Callers with the role service, such as nova, are not counted. 0 is no "
        "bound.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests",
        default=0,
        min=0,
        help="How many requests a worker process works on at a time. Set it to one less than "
        "the threads that gunicorn or uWSGI give a worker: the last thread then answers "
        "/healthcheck and /readiness whatever the others wait for, and refuses requests with "
        "503 while all the others wait for the database. 0 is no bound; placement-core serve "
        "adds such a thread by itself.",
    ),
]
