"""Options of ``[compute]``: the inventories of compute nodes."""

from oslo_config import cfg

GROUP = cfg.OptGroup("compute", title="Compute nodes of cells as resource providers")


def _make_ratio_option(name: str, what: str) -> cfg.Opt:
    return cfg.FloatOpt(
        name,
        min=0.0,
        default=0.0,
        help=f"How many times over {what} of a compute node may be given out whose record says "
        f"no {name}. 0 is initial_{name}. As in nova.",
    )


def _make_initial_ratio_option(name: str, default: float, what: str) -> cfg.Opt:
    return cfg.FloatOpt(
        f"initial_{name}",
        min=0.0,
        default=default,
        help=f"How many times over {what} may be given out where neither the node's record nor "
        f"{name} says anything. As in nova.",
    )


OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "minimum_service_version",
        min=0,
        default=10,
        help="Compute nodes become resource providers once every nova-api (nova-osapi_compute) "
        "and nova-conductor has this service version or a newer one, in every cell. A cell that "
        "cannot be reached counts as an older one.",
    ),
    _make_ratio_option("cpu_allocation_ratio", "VCPU"),
    _make_ratio_option("ram_allocation_ratio", "MEMORY_MB"),
    _make_ratio_option("disk_allocation_ratio", "DISK_GB"),
    _make_initial_ratio_option("cpu_allocation_ratio", 4.0, "VCPU"),
    _make_initial_ratio_option("ram_allocation_ratio", 1.0, "MEMORY_MB"),
    _make_initial_ratio_option("disk_allocation_ratio", 1.0, "DISK_GB"),
    cfg.IntOpt(
        "reserved_host_cpus",
        min=0,
        default=0,
        help="How many processors of each compute node are kept for the host itself.",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        min=0,
        default=512,
        help="How much memory of each compute node is kept for the host itself, in MiB.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        min=0,
        default=0,
        help="How much disk of each compute node is kept for the host itself, in MiB; whole GiB "
        "are kept.",
    ),
    cfg.ListOpt(
        "shared_storage_hosts",
        default=[],
        help="Compute nodes whose instances have their disks on shared storage, and which "
        "therefore get no DISK_GB inventory: names or patterns (rack1*) of their "
        "hypervisor_hostname. A node in an aggregate with a provider that shares DISK_GB "
        "(MISC_SHARES_VIA_AGGREGATE) need not be listed.",
    ),
    cfg.DictOpt(
        "pci_classes",
        default={"type-PCI": "PCI_DEVICE", "type-PF": "CUSTOM_PCI_SRIOV_PF",
                 "type-VF": "SRIOV_NET_VF"},
        help="Which resource class the PCI devices of a type count as, as type:class,…. Custom "
        "classes are made. Devices of other types are not counted.",
    ),
    cfg.DictOpt(
        "max_units",
        default={},
        help="The most that one instance may have of a resource class on one compute node, as "
        "class:amount,…, for example SRIOV_NET_VF:8. Others may have all of it.",
    ),
]
