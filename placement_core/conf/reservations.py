"""Options of ``[reservations]``: plugins, the compute service, and the manager."""

from oslo_config import cfg

GROUP = cfg.OptGroup("reservations", title="Leases of hosts and of slots for instances")

OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt(
        "plugins",
        default=["physical:host", "virtual:instance"],
        help="The resource types that can be reserved: names of installed reservation plugins.",
    ),
    cfg.IntOpt(
        "cleaning_time",
        min=0,
        max=10_080,
        default=0,
        help="For how many minutes after the end of a reservation its hosts are not promised "
        "to anybody.",
    ),
    cfg.IntOpt(
        "minutes_before_end_lease",
        min=0,
        max=525_600,
        default=60,
        help="How long before the end of a lease its before_end_lease event is due, where the "
        "client does not say. 0: there is none.",
    ),
    cfg.StrOpt(
        "instance_design",
        default="placement",
        choices=[
            ("placement", "a resource class of its own, with an inventory of slots"),
            ("aggregate", "that, and a host aggregate of nova; needs a compute driver")],
        help="What an instance reservation consists of while it is in force. It can be changed "
        "while there are leases: those in force stay as they are until they end.",
    ),
    cfg.StrOpt(
        "compute_driver",
        default="none",
        help="The compute service in which flavors and aggregates are made: the name of an "
        "installed compute driver (none, nova).",
    ),
    cfg.IntOpt(
        "server_deletion_timeout",
        min=0,
        max=86_400,
        default=600,
        help="How many seconds servers may take to go, or images of them to be finished, at the "
        "end of a reservation. Then what it consists of in the compute service is removed "
        "without that.",
    ),
    cfg.StrOpt(
        "fence",
        default="enforce",
        choices=[
            ("enforce", "claims on hosts of the freepool need a reservation"),
            ("off", "leases and allocations do not know each other")],
        help="Whether PUT and POST /allocations keep ordinary claims off the hosts of the "
        "freepool, and allocation candidates leave these out.",
    ),
    cfg.StrOpt(
        "leftovers",
        default="report",
        choices=[
            ("report", "they stay, and are logged"),
            ("delete", "they are deleted"),
            ("refuse", "the lease does not end as long as they are there: its event fails and "
             "can be retried")],
        help="What becomes of allocations that still use a reservation when it ends.",
    ),
    cfg.IntOpt(
        "keep_days",
        min=0,
        max=36_500,
        default=365,
        help="For how many days leases that have ended, and notices of what was done to "
        "leases, are kept.",
    ),
    cfg.IntOpt(
        "healing_interval",
        min=0,
        max=525_600,
        default=60,
        help="Leases that are in force, or start within so many minutes, get other hosts as soon "
        "as one of theirs is out of service; later ones when their time comes nearer, because "
        "the host may be back by then. 0: all of them at once.",
    ),
    cfg.IntOpt(
        "silent_host_seconds",
        min=0,
        max=86_400,
        default=180,
        help="A host whose nova-compute service gave no sign of life for so long is out of "
        "service, until it does. 0: only one that is disabled or forced down.",
    ),
    cfg.IntOpt(
        "max_reservations_per_lease",
        min=1,
        max=100,
        default=50,
        help="How many reservations a lease can have at most.",
    ),
    cfg.IntOpt(
        "max_days_ahead",
        min=-1,
        max=36_500,
        default=-1,
        help="How many days from now on leases end at the latest. -1: whenever somebody wants.",
    ),
    cfg.BoolOpt(
        "check_quota",
        default=True,
        help="Whether a lease is refused whose instance reservations together are larger than a "
        "limit of the project, or of one above it, allows at all: instances, processors, memory "
        "and disk, by the limits of [quota] service_type. What is in use now does not count, as "
        "it will not be in use then.",
    ),
    cfg.IntOpt(
        "budget_days",
        min=0,
        max=36_500,
        default=30,
        help="From how many days ago on what leases held counts against the limits "
        "lease:vcpu_hours, lease:memory_gb_hours, lease:disk_gb_hours and lease:host_hours of "
        "[quota] service_type, with all that they will hold. 0: only from now on. At most "
        "keep_days.",
    ),
    cfg.IntOpt(
        "manager_threads",
        min=1,
        max=64,
        default=4,
        help="How many events of leases a manager carries out at the same time. Each is a "
        "transaction of some milliseconds; more threads help where the database is far away.",
    ),
    cfg.FloatOpt(
        "poll_seconds",
        min=0.05,
        max=60,
        default=0.5,
        help="How long a manager sleeps at most before it asks for events again. It wakes up "
        "for those that it knows of; this is how late one may begin that somebody has only "
        "just made, for a lease that starts now.",
    ),
    cfg.IntOpt(
        "event_timeout_seconds",
        min=1,
        max=3600,
        default=30,
        help="For how long a manager has an event that it took. After that another one takes "
        "it: the first has died, or hangs, and whatever it still does has no effect. Longer "
        "than the longest wait for a row of the database ([placement_database] "
        "lock_timeout_seconds) makes sense only where this is often waited for.",
    ),
    cfg.IntOpt(
        "event_max_retries",
        min=0,
        max=1000,
        default=1,
        help="How often an event that failed is tried again, ten seconds later each time, "
        "before its status is ERROR and an operator has to look at it. What fails because "
        "the database does not answer is not counted.",
    ),
]
