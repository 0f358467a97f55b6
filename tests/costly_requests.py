"""``python -m tests.costly_requests``: what one request costs a worker at most.

Serves 2,000 nested hosts (seven providers each) on SQLite, asks what is made to be costly and what
chance makes of it, and prints the processor time and the memory of each. A request may take two
seconds and 100 MiB, and is never answered 5xx; the program ends with 1 if one did more.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import pathlib
import random
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import client, databases, datasets, filling, processes, servers
from benchmarks.bench import Bench

MOST_SECONDS = 2.0
MOST_MIB = 100.0
_CANDIDATES = "/allocation_candidates"
_EXPLAIN = "/capacity/v1/explain/allocation_candidates"
_FITS = "/capacity/v1/room/fits"
#: Classes of each kind of provider of a host, with amounts that fit.
_CLASSES = (
    {"DISK_GB": 100, "IPV4_ADDRESS": 1, "MEM_ENCRYPTION_CONTEXT": 1},
    {"VCPU": 4, "PCPU": 1, "MEMORY_MB": 1024},
    {"SRIOV_NET_VF": 1, "NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 1000},
)
_TRAITS = ("HW_NUMA_ROOT", "HW_NIC_SRIOV", "CUSTOM_PHYSNET_0", "HW_CPU_X86_AVX2",
           "!HW_CPU_X86_AVX", "in:STORAGE_DISK_SSD,STORAGE_DISK_HDD")


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A request."""

    name: str
    method: str
    path: str
    body: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What a request cost the worker.

    :ivar seconds: of its processor.
    :ivar mib: how much its resident memory rose while it worked.
    :ivar most_seconds: how many it may take.
    """

    question: Question
    status: int
    seconds: float
    mib: float
    most_seconds: float = MOST_SECONDS

    @property
    def is_too_much(self) -> bool:
        """Whether it is more than a request may cost."""
        return (self.status >= 500 or self.seconds > self.most_seconds or self.mib > MOST_MIB)

    def __str__(self) -> str:
        """Return it as a line."""
        return (f"{self.status} {self.seconds:6.2f} s {self.mib:7.1f} MiB  {self.question.name}"
                f"{'  TOO MUCH' if self.is_too_much else ''}")


def list_questions() -> Iterator[Question]:
    """Yield what is made to be costly."""
    for name, parameters in _list_searches():
        query = urllib.parse.urlencode(parameters)
        for path in (_CANDIDATES, _EXPLAIN, _FITS):
            yield Question(f"{path}, {name}", "GET", f"{path}?{query}")
    for path in ("/resource_providers", "/resource_providers?resources=VCPU:1",
                 "/capacity/v1/room", "/capacity/v1/room?group_by=root",
                 "/capacity/v1/room/hosts?limit=10000", "/capacity/v1/room/stranded?limit=10000",
                 "/capacity/v1/providers?limit=10000", "/capacity/v1/usages?limit=10000",
                 "/capacity/v1/changes?limit=10000&include=document"):
        yield Question(path, "GET", path)
    for name, find in _list_gangs():
        yield Question(f"a gang, {name}", "POST", "/capacity/v1/claims", {"claim": {
            "project_id": "costly", "user_id": "costly", "consumer_type": "INSTANCE",
            "find": find, "dry_run": True}})


def _list_searches() -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "one class", {"resources": "VCPU:1"}
    yield "three classes", {"resources": "VCPU:1,MEMORY_MB:256,DISK_GB:1"}
    for count, policy in itertools.product((2, 4, 8, 16), ("none", "isolate")):
        groups = {f"resources{number}": "SRIOV_NET_VF:1" for number in range(1, count + 1)}
        yield f"{count} groups of a VF, {policy}", {**groups, "group_policy": policy}
        yield f"{count} groups of a VF, {policy}, a limit", {
            **groups, "group_policy": policy, "limit": "1000"}
    pairs = {f"resources_N{number}": "VCPU:1,MEMORY_MB:256" for number in range(4)} | {
        f"resources_V{number}": "SRIOV_NET_VF:1" for number in range(4)}
    yield "four pairs in subtrees", {
        **pairs, "group_policy": "none", "same_subtree": "_N0,_V0"}
    for count in (16, 32, 64):
        yield f"{count} groups of unequal amounts", {
            **{f"resources{number}": f"SRIOV_NET_VF:{1 + number % 3}"
               for number in range(1, count + 1)},
            "group_policy": "none"}
    for count in (16, 32):
        yield f"{count} groups of unequal amounts, little too much", {
            **{f"resources{number}": f"VCPU:{(5, 7, 3, 6, 4, 9)[number % 6] * 32 // count}"
               for number in range(1, count + 1)},
            "group_policy": "none"}
    yield "what nobody has", {
        **{f"resources{number}": f"SRIOV_NET_VF:{3 + number % 3}" for number in range(1, 9)},
        "group_policy": "none"}


def _list_gangs() -> Iterator[tuple[str, Mapping[str, object]]]:
    groups = {"_N": {"resources": {"VCPU": 1}}, "_V": {"resources": {"SRIOV_NET_VF": 1}}}
    for members in (16, 1000):
        yield f"{members} members", {"members": members, "resources": {"VCPU": 1}}
        yield f"{members} members in subtrees", {
            "members": members, "groups": groups, "group_policy": "none",
            "same_subtree": [["_N", "_V"]]}
        yield f"{members} members by trees", {
            "members": members, "resources": {"VCPU": 1}, "pack_by": "tree:1",
            "order_by": "tree:1"}


def make_questions(chance: random.Random) -> Iterator[Question]:
    """Yield searches that chance makes, without an end."""
    while True:
        groups = chance.choice((1, 2, 3, 4, 6, 8, 12, 16))
        parameters = [("group_policy", chance.choice(("none", "isolate")))]
        for number in range(groups):
            amounts = chance.choice(_CLASSES)
            names = chance.sample(sorted(amounts), chance.randint(1, len(amounts)))
            parameters.append((f"resources_G{number}", ",".join(
                f"{name}:{amounts[name] * chance.randint(1, 3)}" for name in names)))
            if chance.random() < 0.3:
                parameters.append((f"required_G{number}", chance.choice(_TRAITS)))
        if groups > 1 and chance.random() < 0.5:
            related = chance.sample(range(groups), chance.randint(2, min(groups, 4)))
            parameters.append(("same_subtree", ",".join(f"_G{number}" for number in related)))
        if chance.random() < 0.5:
            parameters.append(("limit", chance.choice(("1", "50", "1000", "100000"))))
        path = chance.choice((_CANDIDATES, _EXPLAIN, _FITS))
        address = f"{path}?{urllib.parse.urlencode(parameters)}"
        yield Question(address, "GET", address)


def ask(
    target: client.Target, worker: int, question: Question, most_seconds: float = MOST_SECONDS,
) -> Cost:
    """Send a request, and measure what it costs the worker."""
    status = pathlib.Path(f"/proc/{worker}/status")
    # Forgets how much memory it has had at most.
    pathlib.Path(f"/proc/{worker}/clear_refs").write_text("5")
    before, seconds = _read_mib(status, "VmRSS"), processes.cpu_seconds(worker)
    answered, _ = target.call(question.method, question.path, question.body)
    # What threads have used is counted once they give up the processor.
    time.sleep(0.02)
    return Cost(question, answered, processes.cpu_seconds(worker) - seconds,
                max(0.0, _read_mib(status, "VmHWM") - before), most_seconds)


def _read_mib(status: pathlib.Path, name: str) -> float:
    [line] = [line for line in status.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


@contextlib.contextmanager
def serving(hosts: int) -> Iterator[tuple[client.Target, int]]:
    """Serve nested hosts with one worker; yield how to ask it, and its process."""
    with tempfile.TemporaryDirectory(prefix="placement-costly-") as name:
        folder = pathlib.Path(name)
        server = databases.SQLite(folder)
        keeper = filling.Keeper(server, folder, keep=False)
        bench = Bench(server, keeper, folder, servers.Ours(), 1, 1)
        with contextlib.closing(keeper), contextlib.closing(bench):
            database = bench.copy(datasets.Dataset("tree", hosts))
            with bench.serving(database) as served:
                served.settle()
                served.target.must("GET", f"{_CANDIDATES}?resources=VCPU:1&limit=1")
                yield served.target, max(
                    processes.tree(served.process.pid),
                    key=lambda pid: processes.resident_mib(pid)["rss"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each request costs; return 1 if one cost too much."""
    parser = argparse.ArgumentParser(prog="costly_requests", description=__doc__)
    parser.add_argument("--hosts", type=int, default=2000, help="default: 2000")
    parser.add_argument(
        "--random", type=int, default=300, metavar="N", help="how many are random (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="of chance (default: 0)")
    parser.add_argument(
        "--seconds", type=float, default=MOST_SECONDS,
        help=f"of the processor that a request may take (default: {MOST_SECONDS:.0f})")
    options = parser.parse_args(arguments)
    questions = itertools.chain(list_questions(), itertools.islice(
        make_questions(random.Random(options.seed)), options.random))
    costs = []
    with serving(options.hosts) as (target, worker):
        for question in questions:
            costs.append(ask(target, worker, question, options.seconds))
            print(costs[-1], flush=True)
    bad = [cost for cost in costs if cost.is_too_much]
    print(f"{len(costs)} requests on {options.hosts} hosts: at most "
          f"{max(cost.seconds for cost in costs):.2f} s of processor and "
          f"{max(cost.mib for cost in costs):.0f} MiB; {len(bad) or 'none'} too much")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
