"""Counts software licences: a licence server writes down who has how many.

The register is a CSV file with a line for each instance that runs licensed software:
its uuid, its project, its user, and how many licences it takes.
"""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Callable, Collection, Iterable

from oslo_config import cfg

from placement_core import errors
from placement_core.context import Context
from placement_core.plugin_api.counting import Count, CountingDriver, MemberCount

UNIT = "CUSTOM_LICENCE"

GROUP = "licence_counting"
OPTIONS = [
    cfg.StrOpt("register", help="The file that the licence server writes."),
]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for oslo-config-generator."""
    return [(GROUP, list(OPTIONS))]


@dataclasses.dataclass(frozen=True)
class Licensed:
    """A line of the register."""

    instance_uuid: str
    project_id: str
    user_id: str
    licences: int


class LicenceCounting(CountingDriver):
    """Reads the register for each question."""

    api_version = 1
    units = frozenset((UNIT,))

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts(OPTIONS, group=GROUP)
        self._path = conf[GROUP].register
        if not self._path:
            raise errors.ConfigurationError(
                f"[{GROUP}] register: expected the file that the licence server writes")

    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count the licences of some projects, and of a user in one."""
        return self._count(
            lambda line: line.project_id in project_ids and line.instance_uuid not in without,
            units, user_id)

    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count the licences of every project."""
        return self._count(lambda line: True, units, None)

    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Know of no instances but those with licences, so of no members."""
        return MemberCount(0, "licences")

    def _count(
        self, counts: Callable[[Licensed], bool], units: Collection[str], user_id: str | None
    ) -> Count:
        started = time.monotonic()
        counted = list(filter(counts, self._read())) if UNIT in units else []
        projects: dict[str, dict[str, int]] = {}
        for line in counted:
            used = projects.setdefault(line.project_id, {UNIT: 0})
            used[UNIT] += line.licences
        return Count(
            projects, "licences",
            user=None if user_id is None else {
                UNIT: sum(line.licences for line in counted if line.user_id == user_id)},
            seconds={"register": time.monotonic() - started})

    def _read(self) -> Iterable[Licensed]:
        try:
            with open(self._path, newline="") as register:
                return [
                    Licensed(*names, int(licences)) for *names, licences in csv.reader(register)]
        except (OSError, TypeError, ValueError) as error:
            raise errors.Unavailable(f"The register of licences cannot be read: {error}") from None
