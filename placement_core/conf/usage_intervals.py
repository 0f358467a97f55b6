"""Options of ``[usage_intervals]``: who held what, from when to when."""

from oslo_config import cfg

GROUP = cfg.OptGroup("usage_intervals", title="Who held what, from when to when")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "keep_days",
        min=1,
        max=36_500,
        default=90,
        help="For how many days a usage interval is kept after its end; managers remove what is "
        "older. What is held now does not count. A site with 100,000 deleted servers a day, of "
        "three resource classes each, keeps 27 million rows for 90 days, some 10 GB. Raise it "
        "where charging looks further back, lower it where nobody charges.",
    ),
]
