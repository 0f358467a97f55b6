"""The map of hosts: a cell for each, in groups of hosts that are alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from placement_core.http import pages
from placement_core.http.dashboard import choices, filters
from placement_core.http.dashboard.choices import Choice
from placement_core.http.dashboard.pictures import host_map
from placement_core.http.dashboard.pictures.host_map import Cells
from placement_core.http.operations import Call
from placement_core.placement.room.host_survey import (
    HostGroup,
    HostGrouping,
    HostState,
    HostSurvey,
)

#: So many hosts at most have a cell with a link; of more there is a picture, and pages of lists.
MOST_CELLS = 400
#: How many cells are in a row.
_IN_ROW = 20
#: How many groups are shown one by one, the largest first.
_MOST_GROUPS = 50
_FULLEST = 9
#: How states read, where that is another word.
_TEXTS = {"overcommitted": "over-committed"}
#: How the ways to group hosts read.
_GROUPINGS = {"aggregate": "by aggregates", "trait": "by own traits"}
#: What stands above the hosts that are in no group.
_IN_NO_GROUP: dict[HostGrouping, str] = {
    "aggregate": "in no aggregate", "trait": "without traits of the site"}
#: How the keys of a group are written in a URL; hosts in no group are ``none``.
_SEPARATOR, _NONE = ",", "none"


@dataclasses.dataclass(frozen=True, slots=True)
class HostCell:
    """A host as a cell of a map.

    :ivar tenths: how many tenths of it are in use, 9 at most.
    :ivar percent: the same in percent, with a sentence for those who do not see it.
    :ivar states: ``leased``, ``overcommitted``, ``disabled``, as far as they apply.
    """

    uuid: str
    name: str
    tenths: int
    percent: int
    fullest: str | None
    states: Sequence[str]

    @property
    def state_texts(self) -> list[str]:
        """Return the states as they read."""
        return [_TEXTS.get(state, state) for state in self.states]

    @property
    def label(self) -> str:
        """Return what the cell says."""
        used = "nothing to use" if self.fullest is None else (
            f"{self.percent} % of {self.fullest} used")
        return ", ".join([f"{self.name}: {used}", *self.state_texts])


@dataclasses.dataclass(frozen=True, slots=True)
class HostGroupRow:
    """A group of hosts in numbers.

    :ivar keys: aggregates or traits; empty: in none.
    :ivar group: the same as the URL of its page has it; None: it has none, being what is left.
    :ivar used_percent: of the mean host, of the class of which the least is left.
    """

    keys: Sequence[str]
    group: str | None
    count: int
    used_percent: int
    full: int
    leased: int
    overcommitted: int
    disabled: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostCells:
    """The hosts of a group as cells.

    :ivar name: of the group; None: it has none.
    :ivar rows: of cells.
    """

    name: str | None
    rows: Sequence[Sequence[HostCell]]


@dataclasses.dataclass(frozen=True, slots=True)
class HostMap:
    """All hosts.

    :ivar cells: of each group, if there are few enough hosts; else empty, and ``picture`` has
        them.
    """

    count: int
    by: HostGrouping
    groupings: Sequence[Choice]
    groups: Sequence[HostGroupRow]
    cells: Sequence[HostCells]
    picture: Markup | None


def parse_grouping(call: Call) -> HostGrouping:
    """Return by what the query string groups hosts: by aggregates, if it says nothing else."""
    return "trait" if pages.get_last(call.query, "by") == "trait" else "aggregate"


def make_groupings(call: Call, path: str, by: HostGrouping) -> list[Choice]:
    """Return the ways to group hosts, as links to a page."""
    return choices.make_choices(call, path, "by", _GROUPINGS, by)


def read_map(
    call: Call, path: str, by: HostGrouping, resource_class: str | None
) -> HostMap:
    """Return the map of all hosts, group by group.

    :param path: of the page, below the dashboard.
    :param resource_class: of which the usage is shown.
    """
    survey = call.services.room.survey(call.ctx, resource_class)
    groups = survey.group(by)
    count = len(survey.roots)
    few = count <= MOST_CELLS
    return HostMap(
        count, by, make_groupings(call, path, by), list_groups(survey, groups),
        [HostCells(_make_name(by, keys, len(positions)), make_rows(survey, positions.tolist()))
         for keys, _, positions in _join_smallest(groups)] if few else [],
        None if few else host_map.draw_host_map(
            "host-map", "Hosts, and how full each is", _make_cells(survey, by, groups)))


def find_group(survey: HostSurvey, by: HostGrouping, text: str | None) -> HostGroup | None:
    """Return the group that a URL names; None: there is none. Without a name, all hosts."""
    if text is None:
        return HostGroup((), np.arange(len(survey.roots), dtype=np.intp))
    keys = () if text == _NONE else tuple(sorted(text.split(_SEPARATOR)))
    return next((group for group in survey.group(by) if group.keys == keys), None)


def make_rows(survey: HostSurvey, positions: Iterable[int]) -> list[list[HostCell]]:
    """Return some hosts as cells, in rows."""
    cells = list(map(_make_cell, survey.describe(positions)))
    return [cells[start:start + _IN_ROW] for start in range(0, len(cells), _IN_ROW)]


def _make_cell(state: HostState) -> HostCell:
    return HostCell(
        state.uuid, state.name, min(int(state.used_share * 10), _FULLEST),
        round(100 * state.used_share), state.fullest,
        [name for name in host_map.STATES if getattr(state, name)])


def _make_cells(
    survey: HostSurvey, by: HostGrouping, groups: Sequence[HostGroup]
) -> Cells:
    joined = _join_smallest(groups)
    order = np.concatenate([positions for _, _, positions in joined])
    tenths = np.minimum((survey.used_shares[order] * 10).astype(np.int64), _FULLEST)
    return Cells(
        tenths.tolist(),
        {state: np.flatnonzero(getattr(survey, state)[order]).tolist()
         for state in host_map.STATES},
        [(_make_name(by, keys, len(positions)), len(positions))
         for keys, _, positions in joined])


def _make_name(by: HostGrouping, keys: Sequence[str], count: int) -> str:
    """Return what stands above the hosts of a group."""
    hosts = "1 host" if count == 1 else f"{filters.format_number(count)} hosts"
    return f"{', '.join(keys) or _IN_NO_GROUP[by]} ({hosts})"


def _join_smallest(
    groups: Sequence[HostGroup]
) -> list[tuple[Sequence[str], str | None, np.ndarray]]:
    """Return the keys, the text in URLs and the hosts of the largest groups.

    The others together are the last one, which no URL has.
    """
    joined: list[tuple[Sequence[str], str | None, np.ndarray]] = [
        (group.keys, _SEPARATOR.join(group.keys) or _NONE, group.positions)
        for group in groups[:_MOST_GROUPS]]
    others = [group.positions for group in groups[_MOST_GROUPS:]]
    if others:
        joined.append(((f"{len(others)} smaller groups",), None, np.concatenate(others)))
    return joined


def list_groups(survey: HostSurvey, groups: Sequence[HostGroup]) -> list[HostGroupRow]:
    """Return the largest groups in numbers, and the others together."""
    return [_count_group(survey, positions, keys, group)
            for keys, group, positions in _join_smallest(groups)]


def _count_group(
    survey: HostSurvey, positions: np.ndarray, keys: Sequence[str], group: str | None
) -> HostGroupRow:
    shares = survey.used_shares[positions]
    return HostGroupRow(
        keys, group, len(positions), round(100 * float(shares.mean())),
        int(np.count_nonzero(shares >= _FULLEST / 10)), *(
            int(np.count_nonzero(getattr(survey, state)[positions]))
            for state in host_map.STATES))
