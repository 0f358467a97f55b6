"""Runs a play on a kind of cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable
from typing import TypeVar

import fixtures

from tests.faults import cloud, play
from tests.faults.clusters import galera, patroni, postgresql, sqlite

#: {name: the fixture of a cluster}.
KINDS = {
    "sqlite": sqlite.Cluster,
    "postgresql": postgresql.Cluster,
    "patroni": patroni.Cluster,
    "galera": galera.Cluster,
    "galera-one": galera.OneNodeCluster,
}

F = TypeVar("F", bound=fixtures.Fixture)


def run(
    kind: str, length: play.Length, seed: int, results: pathlib.Path, *,
    say: Callable[[str], None] = lambda text: None, recovery: float = play.RECOVERY_SECONDS,
    only: str = "",
) -> play.Report:
    """Play on a cluster; write the report and the history below ``results``.

    :param length, seed, say, recovery, only: as ``play.play``.
    :raises NotInstalledError: the cluster cannot be had on this machine.
    :raises NothingHappensError: as ``play.play``.
    """
    folder = results / kind
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        cluster = _set_up(stack, KINDS[kind]())
        made = _set_up(stack, cloud.Cloud(cluster.urls))
        report = play.play(
            kind, cluster, made, length=length, seed=seed, folder=folder,
            say=say, recovery=recovery, only=only)
        if report.wrong:
            report = dataclasses.replace(
                report, wrong=[*report.wrong, *made.list_tracebacks()])
            for name in sorted(path.name for path in made.folder.iterdir()):
                (folder / f"{name}.log").write_text(made.read_log(name))
    (folder / "report.json").write_text(report.write_json() + "\n")
    return report


def _set_up(stack: contextlib.ExitStack, fixture: F) -> F:
    """Use a fixture until the stack is left.

    :raises Exception: what its set-up raised first; fixtures wrap it.
    """
    try:
        fixture.setUp()
    except fixtures.MultipleExceptions as errors:
        raise errors.args[0][1] from errors
    stack.callback(fixture.cleanUp)
    return fixture
