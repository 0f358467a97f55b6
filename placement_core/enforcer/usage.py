"""Usage: a service's callbacks, each called at most once for the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

#: (project id, resource names) -> {resource name: in use}; None: what belongs to no project.
UsageCallback = Callable[[str | None, Collection[str]], Mapping[str, int]]

#: (project ids, resource names) -> {resource name: in use by all of them together}.
TreeUsageCallback = Callable[[Sequence[str], Collection[str]], Mapping[str, int]]


class Usage:
    """The usage of some resources, counted as a decision needs it."""

    def __init__(
        self, names: Sequence[str], of_project: UsageCallback,
        of_projects: TreeUsageCallback | None,
    ) -> None:
        """Count nothing yet.

        :param of_projects: None: ``of_project`` is called for each of them.
        """
        self._names = names
        self._of_project = of_project
        self._of_projects = of_projects
        self._counted: dict[str | None, Mapping[str, int]] = {}

    def own(self, project_id: str | None) -> Mapping[str, int]:
        """Return what a project uses itself, of every resource.

        :raises ValueError: the callback left one out.
        """
        if project_id not in self._counted:
            self._counted[project_id] = _require_complete(
                self._names, self._of_project(project_id, self._names))
        return self._counted[project_id]

    def together(self, project_ids: Sequence[str], names: Sequence[str]) -> Mapping[str, int]:
        """Return what projects use together, of some resources.

        :raises ValueError: the callback left one out.
        """
        if self._of_projects is not None:
            return _require_complete(names, self._of_projects(project_ids, names))
        counted = [self.own(project_id) for project_id in project_ids]
        return {name: sum(usage[name] for usage in counted) for name in names}


def _require_complete(names: Sequence[str], counted: Mapping[str, int]) -> dict[str, int]:
    missing = [name for name in names if name not in counted]
    if missing:
        raise ValueError(f"the usage callback does not tell the usage of {', '.join(missing)}")
    return {name: int(counted[name]) for name in names}
