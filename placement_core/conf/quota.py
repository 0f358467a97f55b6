"""Options of ``[quota]``: how usage is counted, and whether limits bind claims."""

from oslo_config import cfg

GROUP = cfg.OptGroup("quota", title="Counting usage, and holding claims to limits")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "count_usage_from_placement",
        default=False,
        help="How much a project uses: true asks the instance mappings and placement, which "
        "stays exact while a cell is down; false reads every cell's database. A project "
        "with instance mappings that were not migrated yet is counted from the cells in "
        "either case.",
    ),
    cfg.StrOpt(
        "counting_driver",
        default="",
        help="The name of an installed counting driver, instead of those that "
        "count_usage_from_placement chooses between (placement, legacy_cell).",
    ),
    cfg.StrOpt(
        "service_type",
        default="compute",
        help="Whose limits claims are held to: a type of service in the catalog that "
        "registered limits.",
    ),
    cfg.StrOpt(
        "region",
        default="",
        help="The region of those limits, and of no other. Empty: the limits without a region "
        "and, where the catalog has exactly one region, those of that one, which win where a "
        "resource is registered both ways. Set it where the catalog has several regions: what "
        "is registered in regions only is answered with 503 otherwise.",
    ),
    cfg.ListOpt(
        "resource_map",
        default=["servers=consumers", "instances=instances", "cores=VCPU+PCPU",
                 "ram=MEMORY_MB"],
        help="What the names of limits count, as name=unit+unit: resource classes, consumers "
        "(of placement; one that moves counts once) or instances. class:NAME counts the "
        "resource class NAME and need not be listed; class:VCPU=VCPU+PCPU counts dedicated "
        "processors too.",
    ),
    cfg.StrOpt(
        "unregistered",
        default="unlimited",
        choices=[
            ("unlimited", "there is as much of it as there is"),
            ("zero", "nobody may have any, as oslo.limit has it")],
        help="What may be had of a resource that no limit is registered for.",
    ),
    cfg.StrOpt(
        "guard",
        default="off",
        choices=[
            ("off", "allocations are written without regard to limits"),
            ("audit", "what exceeds a limit is logged, and written"),
            ("enforce", "what exceeds a limit is refused with 403")],
        help="Whether PUT and POST /allocations hold the growth of projects to their limits. "
        "What shrinks, moves, is reshaped or deleted is never refused.",
    ),
    cfg.StrOpt(
        "count_moves",
        default="twice",
        choices=[
            ("twice", "both allocations count, as in nova"),
            ("once", "the larger of both counts")],
        help="How an instance counts that holds allocations twice, during a resize or a "
        "migration. With a guard it counts once.",
    ),
    cfg.StrOpt(
        "on_missing_cell",
        default="refuse",
        choices=[
            ("refuse", "a check is answered with 503"),
            ("allow", "what the cell holds is not counted"),
            ("last_known", "what the cell said last is counted; refuse without that")],
        help="What a check does when a cell that has to be counted cannot be reached. The "
        "answer names the cell in every case.",
    ),
    cfg.IntOpt(
        "longest_hold_seconds",
        default=86400,
        min=1,
        max=2**31 - 1,
        help="For how long a claim can be held at most without being confirmed, in seconds.",
    ),
]
