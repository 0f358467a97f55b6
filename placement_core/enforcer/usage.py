"""Usage, counted by a service's callbacks; a project's own usage is counted at most once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

#: (project id, resource names) -> {resource name: in use}; the id None means no project.
UsageCallback = Callable[[str | None, Collection[str]], Mapping[str, int]]

#: (project ids, resource names) -> {resource name: sum of the usage of all these projects}.
TreeUsageCallback = Callable[[Sequence[str], Collection[str]], Mapping[str, int]]


class Usage:
    """The usage of some resources, counted when a decision needs it."""

    def __init__(
        self, names: Sequence[str], of_project: UsageCallback,
        of_projects: TreeUsageCallback | None,
    ) -> None:
        """Take the callbacks, without calling them.

        :param of_projects: None: ``of_project`` is called for each project.
        """
        self._names = names
        self._of_project = of_project
        self._of_projects = of_projects
        self._counted: dict[str | None, Mapping[str, int]] = {}

    def own(self, project_id: str | None) -> Mapping[str, int]:
        """Return a project's own usage of every resource.

        :raises ValueError: the callback left out a resource.
        """
        if project_id not in self._counted:
            self._counted[project_id] = _require_complete(
                self._names, self._of_project(project_id, self._names))
        return self._counted[project_id]

    def together(self, project_ids: Sequence[str], names: Sequence[str]) -> Mapping[str, int]:
        """Return the sum of the usage of projects, for some resources.

        :raises ValueError: the callback left out a resource.
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
