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
        "max_request_body_depth",
        default=32,
        min=8,
        max=128,
        help="How many levels of lists and objects inside of each other a request body may have; "
        "more are refused with 400. The service's own have up to eight.",
    ),
    cfg.IntOpt(
        "max_query_length",
        default=65_536,
        min=1024,
        max=65_536,
        help="How many characters a query string may have as it is sent; longer ones are refused "
        "with 400. Clients that name a thousand aggregates need 40,000. It cannot be raised, "
        "because servers and proxies read no more.",
    ),
    cfg.IntOpt(
        "max_query_parameters",
        default=500,
        min=50,
        max=900,
        help="How many parameters a query string may have; more are refused with 400. Each may "
        "become a condition of a statement, of which SQLite takes 1,000.",
    ),
    cfg.IntOpt(
        "max_page_size",
        default=10_000,
        min=1000,
        max=100_000,
        help="How many items a page of a list has at most. The capacity API refuses a larger "
        "limit in the query string with 400; lists of limits, leases and hosts cut it, as "
        "Keystone and nova do, and link to the next page. Without a limit, the capacity API "
        "gives 1,000 items and the limits API all. Lists of the Placement API have no pages.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests_per_project",
        default=0,
        min=0,
        help="How many requests of one project a worker process works on at a time; further "
        "ones are refused with 429 and Retry-After, so that one project's scripts leave others "
        "their share. Callers with the role service, such as nova, are not counted, nor "
        "is what serve --watch-bind answers. 0 is no bound.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests",
        default=0,
        min=0,
        help="How many requests a worker process processes at a time; others wait. gunicorn, "
        "uWSGI and mod_wsgi need more threads in a process than this and max_waiting_requests "
        "together: the other threads answer /healthcheck and /readiness whatever those wait "
        "for. 0 is no bound, for these; for placement-core serve, which has as many threads as "
        "it needs by itself, it is --threads.",
    ),
    cfg.IntOpt(
        "max_waiting_requests",
        default=256,
        min=0,
        max=1024,
        help="How many more requests may wait in a worker process until others are done, first "
        "come, first served; further ones are refused with 503 and Retry-After at once. A burst "
        "of as many requests is answered completely. Each of them occupies a thread while it "
        "waits.",
    ),
    cfg.FloatOpt(
        "max_wait_seconds",
        default=5.0,
        min=0.1,
        help="For how long a request may wait until it is processed; then it is refused with "
        "503 and Retry-After. Once a worker process has been working on max_concurrent_requests "
        "requests at a time for as long, without a break, it is overloaded, and requests wait a "
        "fifth of this at most. It should be well below the time after which clients give up.",
    ),
]
