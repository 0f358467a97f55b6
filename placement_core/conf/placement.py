"""Options of ``[placement]``: the behaviour of the Placement API."""

from oslo_config import cfg

GROUP = cfg.OptGroup("placement", title="Placement")

#: Of ``max_search_dead_ends``.
DEFAULT_DEAD_ENDS = 50_000
_NOBODY = "00000000-0000-0000-0000-000000000000"

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="Whether a limited list of allocation candidates is a random sample of all. "
        "Without it, the same question in the same situation has the same answer.",
    ),
    cfg.StrOpt(
        "candidate_order",
        default="rotate",
        help="Which hosts come first in allocation candidates: the name of an installed driver "
        "of the kind candidate_order. ``rotate``: those that come first in the service's own "
        "order, which is the same for each request, or in random order with "
        "randomize_allocation_candidates; ``pack``: those that have room for the fewest more of "
        "the request; ``spread``: those that have room for the most; ``least_stranded``: those "
        "where the request leaves the least that no usual request can use. Nova weighs hosts "
        "itself: its option ``[scheduler] max_placement_results`` says how many it receives.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=_NOBODY,
        help="The project of consumers whose client named none (microversions below 1.8).",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=_NOBODY,
        help="The user of consumers whose client named none (microversions below 1.8).",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        min=0,
        help="How often a write that lost a race in the database is repeated before the "
        "client is told.",
    ),
    cfg.IntOpt(
        "max_grouped_consumers",
        default=32,
        min=1,
        help="Writes of allocations that wait in one process at the same moment share a "
        "transaction: those of at most so many consumers. 1 gives each write a transaction of "
        "its own.",
    ),
    cfg.IntOpt(
        "max_request_groups",
        default=64,
        min=1,
        help="How many groups (resources, resources1, resources_NET and so on) one request for "
        "candidates may have; more are refused with 400. Nova needs one for each flavor group, "
        "port and accelerator of an instance.",
    ),
    cfg.IntOpt(
        "max_search_dead_ends",
        default=DEFAULT_DEAD_ENDS,
        min=1000,
        max=10_000_000,
        help="How many steps of the search for one request may come to nothing, beyond those "
        "that each tree and each candidate found allow; a request that needs more is refused "
        "with 400. Only groups of unequal amounts on many unequal devices do. A step among many "
        "devices counts as several: one more for each sixteen of them. With the default such a "
        "request costs a worker about a second.",
    ),
    cfg.IntOpt(
        "max_candidates_size",
        default=20 * 1024 * 1024,
        min=64 * 1024,
        help="How many bytes the allocation requests in one answer may have; larger answers are "
        "refused with 400, which asks for a limit. A worker needs some four times as much "
        "memory for such an answer. 20 MiB hold one candidate on each of 100,000 hosts.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        min=-1,
        help="The most allocation candidates made for one request, before its own limit; "
        "-1 is no bound but max_candidates_size. Set it (10000, say) where wide provider trees "
        "meet clients that send no limit.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before the next tree"),
            ("breadth-first", "one candidate of each tree in turn"),
        ],
        help="In which order trees contribute where max_allocation_candidates cuts off. A "
        "limit in the request itself always takes trees in turn.",
    ),
]
