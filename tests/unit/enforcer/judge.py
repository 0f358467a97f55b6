"""oslo.limit as the judge of the flat model: two enforcers, one question, the same answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import fixtures
from oslo_config import cfg
from oslo_limit import exception as oslo_exception, limit as oslo_limit, opts

from placement_core.enforcer import Connection, Enforcer, ProjectOverLimit

#: What may be registered; ``tapes`` never is.
NAMES = ("cores", "disks", "ram", "servers")

#: (registered limits, {project: limits set for it}) -> nothing.
Set = Callable[[dict[str, int], dict[str, dict[str, int]]], None]


class OsloLimit(fixtures.Fixture):
    """oslo.limit, configured by a file as a process of its own would be."""

    def __init__(self, file: str) -> None:
        self._file = file

    def _setUp(self) -> None:
        # Not the global options: a way to log in registers some that others then lack.
        options = cfg.ConfigOpts()
        for module in ("limit", "opts"):
            self.useFixture(fixtures.MonkeyPatch(f"oslo_limit.{module}.CONF", options))
        opts.register_opts(options)
        options([], project="service", default_config_files=[self._file],
                default_config_dirs=[])
        # It reports each resource that is not registered.
        self.useFixture(fixtures.FakeLogger())
        self.useFixture(fixtures.MonkeyPatch("oslo_limit.limit._SDK_CONNECTION", None))


class Service:
    """A service that counts its usage, and notes how it was asked."""

    def __init__(self) -> None:
        self.usages: dict[str | None, dict[str, int]] = {}
        self.asked: list[tuple[str | None, list[str]]] = []

    def usage(self, project_id: str | None, names: Collection[str]) -> dict[str, int]:
        self.asked.append((project_id, list(names)))
        used = self.usages[project_id]
        return {name: used[name] for name in names if name in used}


def outcome(enforcer: Any, method: str, *arguments: Any) -> Any:
    """Return what a call says, in words that both libraries share."""
    try:
        found = getattr(enforcer, method)(*arguments)
    except (ProjectOverLimit, oslo_exception.ProjectOverLimit) as error:
        return "over", error.project_id, [
            (one.resource_name, one.limit, one.current_usage, one.delta)
            for one in error.over_limit_info_list]
    except (ValueError, KeyError):
        # calculate_usage of oslo.limit misses a resource with KeyError.
        return "senseless"
    if isinstance(found, dict):
        return {name: tuple(each) for name, each in found.items()}
    return found


def compare(
    test: Any, connection: Connection, set_: Set, requests: Callable[[], int], *,
    projects: list[str], turns: int,
) -> None:
    """Draw limits, usages and claims; compare each answer, and what it took.

    :param set_: replaces the limits.
    :param requests: returns how many came in, since it was called last.
    """
    chance = random.Random(7)
    service = Service()
    amounts = (-1, 0, 1, 3, 5, 8)
    took = {"ours": 0, "theirs": 0}
    seen: dict[str, int] = {}
    for _ in range(turns):
        registered = {name: chance.choice(amounts) for name in NAMES if chance.random() < 0.8}
        set_(registered, {
            project: {name: chance.choice(amounts) for name in registered
                      if chance.random() < 0.5}
            for project in projects})
        project = chance.choice((None, *projects))
        names = chance.sample((*NAMES, "tapes"), chance.randint(1, 4))
        service.usages = {project: {
            name: chance.randrange(8) for name in (*NAMES, "tapes") if chance.random() < 0.97}}
        calls = [
            ("enforce", project, {name: chance.choice((0, 0, 1, 2, 4)) for name in names}),
            ("calculate_usage", project, names),
            ("get_project_limits", project, names),
            ("get_registered_limits", names),
        ]
        for call in calls:
            said = {}
            for who, make in (("theirs", lambda: oslo_limit.Enforcer(service.usage)),
                              ("ours", lambda: Enforcer(service.usage, connection=connection))):
                requests()
                answer = outcome(make(), *call)
                took[who] += requests()
                said[who] = answer, list(service.asked)
                service.asked.clear()
            test.assertEqual(said["theirs"], said["ours"], (call, registered, service.usages))
            kind = said["ours"][0]
            kind = kind if isinstance(kind, str) else "over" if isinstance(kind, tuple) else "told"
            seen[kind] = seen.get(kind, 0) + 1
        for call in (("get_project_limits", projects[0], None), ("get_registered_limits", None)):
            test.assertEqual(*(
                sorted(outcome(enforcer, *call)) for enforcer in (
                    oslo_limit.Enforcer(service.usage),
                    Enforcer(service.usage, connection=connection))))
    # All kinds of answers were drawn.
    test.assertEqual({"over", "senseless", "told"}, set(seen), seen)
    test.assertLess(took["ours"] * 2, took["theirs"])


SENSELESS = (
    ("enforce", "", {"cores": 1}), ("enforce", 5, {"cores": 1}), ("enforce", "p", {}),
    ("enforce", "p", None), ("enforce", "p", []), ("enforce", "p", {1: 1}),
    ("enforce", "p", {"cores": "1"}), ("enforce", "p", {"cores": 1.0}),
    ("enforce", "p", {"cores": None}), ("calculate_usage", "", ["cores"]),
    ("calculate_usage", 5, ["cores"]), ("calculate_usage", "p", []),
    ("calculate_usage", "p", None), ("calculate_usage", "p", 5), ("calculate_usage", "p", [1]),
    ("get_project_limits", None, None),
)
