"""Options of ``[reservations]``: what can be leased, how, and what happens when."""

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
            ("aggregate", "a host aggregate and a server group of nova; needs a compute driver")],
        help="What an instance reservation consists of while it is in force.",
    ),
    cfg.StrOpt(
        "compute_driver",
        default="none",
        help="The compute service in which flavors, server groups and aggregates are made: the "
        "name of an installed compute driver (none, nova).",
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
        "max_reservations_per_lease",
        min=1,
        max=100,
        default=50,
        help="How many reservations a lease can have at most.",
    ),
]
