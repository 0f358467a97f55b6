"""Options of ``[limits]``: the source of limits, and the model of limits in project trees."""

from oslo_config import cfg

GROUP = cfg.OptGroup("limits", title="Limits of projects and domains")

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "driver",
        default="local",
        help="Who keeps registered limits and the limits of projects and domains: local (this "
        "service's own database, through the routes below /v3), keystone (a remote Keystone), "
        "or the name of an installed driver.",
    ),
    cfg.StrOpt(
        "enforcement_model",
        default="flat",
        help="What limits mean in a tree of projects: flat (each project by itself), "
        "strict_two_level, tree, overcommit (an experiment), or the name of an installed "
        "model. Limits that a new model would refuse stay as they are until they are changed.",
    ),
    cfg.StrOpt(
        "advertised_model",
        default="",
        help="The model that GET /v3/limits/model names; empty is the one in force. Services "
        "that use oslo.limit start with flat only: set flat here when they ask a service "
        "whose own model is another one, and know that they then enforce the limits of "
        "single projects, not those of the tree.",
    ),
    cfg.IntOpt(
        "history_keep_days",
        min=0,
        max=36_500,
        default=365,
        help="For how many days the history of limits (who changed which one from what to what) "
        "is kept; managers remove what is older.",
    ),
]
