"""Options of ``[changes]``: the log of changes, from which watchers and indexes read."""

from oslo_config import cfg

GROUP = cfg.OptGroup("changes", title="The log of changes")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "keep_seconds",
        min=60,
        max=31_536_000,
        default=86_400,
        help="For how many seconds changes are kept. A watcher (GET /capacity/v1/changes) that "
        "was away for longer is refused (410), and has to read everything anew. A write has a row "
        "of about a hundred bytes for each thing that it changes: some five for a claim. Set it "
        "lower where the disk is small or writes are many, and higher where watchers may be away "
        "over a weekend.",
    ),
]
