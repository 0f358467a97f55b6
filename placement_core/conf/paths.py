"""Options of ``[DEFAULT]``: paths that other values may refer to."""

from oslo_config import cfg

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "state_path",
        default="/var/lib/placement",
        help="The directory for what the service keeps in files. Other values may name it, "
        "for example connection = sqlite:///$state_path/placement.sqlite.",
    ),
    cfg.StrOpt(
        "pybasedir",
        sample_default="<unset>",
        help="Accepted because placement.conf files have it; nothing reads it, because the "
        "service finds its own files.",
    ),
    cfg.StrOpt(
        "tempdir",
        help="Accepted because placement.conf files have it; nothing reads it, because the "
        "service makes no temporary files.",
    ),
]
