"""The ``Enforcer``, which decides whether a project may use more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from placement_core import amounts
from placement_core.enforcer import connection as connections, exception, questions
from placement_core.enforcer.connection import Connection
from placement_core.enforcer.usage import TreeUsageCallback, Usage, UsageCallback
from placement_core.plugin_api.enforcement import Binding, Excess, Scope


class ProjectUsage(NamedTuple):
    """A limit of a project, and the usage that counts against it.

    :ivar limit: -1: unlimited.
    """

    limit: int
    usage: int


class Enforcer:
    """Checks usage against limits. Thread-safe.

    Source: oslo.limit 2.12 ``Enforcer``. Differs: supports models of limits in trees of
    projects, checks before each decision whether limits have changed (see ``[oslo_limit]
    cache_seconds``), and never refuses a negative delta.
    """

    def __init__(
        self, usage_callback: UsageCallback, cache: bool = True, *,
        tree_usage_callback: TreeUsageCallback | None = None,
        connection: Connection | None = None,
    ) -> None:
        """Create an enforcer, for one request or for the life of the process.

        :param usage_callback: ``(project_id, names) -> {name: in use}``.
        :param cache: False: cached answers are neither used nor stored.
        :param tree_usage_callback: ``(project_ids, names) -> {name: in use together}``, for
            models in which the usage of a tree counts; without it, ``usage_callback``
            is called for each project of the tree.
        :param connection: by default the process's own, from ``oslo_config.cfg.CONF``.
        :raises ValueError: a callback cannot be called; or see ``Connection``.
        :raises SessionInitError: the service that has the limits cannot be reached.
        """
        if not callable(usage_callback):
            raise ValueError("usage_callback must be callable")
        if tree_usage_callback is not None and not callable(tree_usage_callback):
            raise ValueError("tree_usage_callback must be callable")
        self._usage_callback = usage_callback
        self._tree_usage_callback = tree_usage_callback
        self._keep = cache
        self._connection = connection or connections.of_process()

    def enforce(self, project_id: str | None, deltas: Mapping[str, int]) -> None:
        """Raise an exception if a claim would exceed limits.

        Limits are read first, then usage is counted, then they are compared. A resource that is
        not registered has a limit of 0.

        :param project_id: None: the usage belongs to no project; registered limits bind it.
        :param deltas: {resource name: requested amount}; 0 checks whether a limit is exceeded
            already.
        :raises ProjectOverLimit: with every limit that would be exceeded.
        :raises ValueError: the arguments are not valid, or a callback left out a resource.
        """
        _check_project(project_id)
        if not isinstance(deltas, dict) or not deltas:
            raise ValueError("deltas must be a dictionary that is not empty")
        for name, delta in deltas.items():
            if not isinstance(name, str):
                raise ValueError(f"a resource's name must be a string, not {name!r}")
            if not isinstance(delta, int):
                raise ValueError(f"the delta of {name} must be an integer, not {delta!r}")

        names = sorted(deltas)
        limits = self._read_limits(project_id, names)
        bindings = self._find_bindings(limits, names)
        usage = self._read_usage(names)
        usage.own(project_id)
        counted = _count(usage, limits, bindings)
        judge = self._connection.get_model(limits.model).judge
        excesses = [
            excess for name in names
            for excess in judge(name, bindings[name], counted[name], deltas[name])]
        if excesses:
            raise exception.ProjectOverLimit(project_id, [_make_info(one) for one in excesses])

    def calculate_usage(
        self, project_id: str | None, resources_to_check: Collection[str]
    ) -> dict[str, ProjectUsage]:
        """Return a project's own limits and the usage that counts against them, for reports.

        Limits of its ancestors are not included; ``enforce`` with a delta of 0 names those that
        are exceeded.

        :raises ValueError: the arguments are not valid, or a callback left out a resource.
        """
        _check_project(project_id)
        expected = "resources_to_check must be names of resources, and at least one"
        try:
            names = list(resources_to_check)
        except TypeError:
            raise ValueError(expected) from None
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(expected)

        limits = self._read_limits(project_id, names)
        own = {
            name: [binding for binding in bindings
                   if binding.node_id == (project_id or questions.NO_PROJECT.id)]
            for name, bindings in self._find_bindings(limits, names).items()}
        usage = self._read_usage(names)
        uses = usage.own(project_id)
        counted = _count(usage, limits, own)
        return {
            name: _make_project_usage(own[name], counted[name], uses[name]) for name in names}

    def get_registered_limits(
        self, resources_to_check: Collection[str] | None
    ) -> list[tuple[str, int]]:
        """Return the registered defaults of resources, in the order of the names.

        :param resources_to_check: None: all registered resources.
        :returns: [(resource name, limit)]; -1: unlimited; 0: not registered.
        """
        defaults = questions.read_defaults(self._connection, keep=self._keep)
        names = defaults if resources_to_check is None else resources_to_check
        return [(name, amounts.to_wire(defaults.get(name, 0))) for name in names]

    def get_project_limits(
        self, project_id: str | None, resource_names: Collection[str] | None
    ) -> list[tuple[str, int]]:
        """Return a project's own limits, in the order of the names.

        :param resource_names: None: the limits that are set for the project, without defaults.
        :returns: [(resource name, limit)]; -1: unlimited; 0: not registered.
        :raises ValueError: neither a project nor names are given.
        """
        if project_id is None and resource_names is None:
            raise ValueError("project_id must not be None where resource_names is")
        limits = self._read_limits(project_id, resource_names)
        own = limits.set.get(project_id, {}) if project_id else {}
        names = own if resource_names is None else resource_names
        return [
            (name, amounts.to_wire(own.get(name, limits.defaults.get(name, 0))))
            for name in names]

    def _read_limits(
        self, project_id: str | None, names: Collection[str] | None
    ) -> questions.Limits:
        return questions.read_limits(self._connection, project_id, names, keep=self._keep)

    def _find_bindings(
        self, limits: questions.Limits, names: Sequence[str]
    ) -> dict[str, list[Binding]]:
        model = self._connection.get_model(limits.model)
        return {
            name: model.bindings(
                limits.lineage,
                {node_id: overrides[name] for node_id, overrides in limits.set.items()
                 if name in overrides},
                limits.defaults.get(name, 0))
            for name in names}

    def _read_usage(self, names: Sequence[str]) -> Usage:
        return Usage(names, self._usage_callback, self._tree_usage_callback)


def _check_project(project_id: str | None) -> None:
    if project_id is not None and not (isinstance(project_id, str) and project_id):
        raise ValueError("project_id must be None or a string that is not empty")


def _count(
    usage: Usage, limits: questions.Limits, bindings: Mapping[str, Sequence[Binding]]
) -> dict[str, dict[tuple[str, Scope], int]]:
    """Return the usage for each limit, by resource name; each tree is counted once."""
    counted: dict[str, dict[tuple[str, Scope], int]] = {name: {} for name in bindings}
    names_by_bound: dict[tuple[str, Scope], list[str]] = {}
    for name, bounds in bindings.items():
        for bound in bounds:
            names_by_bound.setdefault((bound.node_id, bound.scope), []).append(name)
    for (node_id, scope), names in names_by_bound.items():
        uses = (usage.together(limits.subtrees[node_id], names) if scope == "subtree"
                else usage.own(node_id or None))
        for name in names:
            counted[name][node_id, scope] = uses[name]
    return counted


def _make_info(excess: Excess) -> exception.OverLimitInfo:
    binding = excess.binding
    return exception.OverLimitInfo(
        excess.resource_name, amounts.to_wire(binding.limit), excess.usage, excess.delta,
        binding.node_id or None, binding.scope)


def _make_project_usage(
    own: Sequence[Binding], counted: Mapping[tuple[str, Scope], int], uses: int
) -> ProjectUsage:
    """Return a project's first limit with its usage, or its own usage if it is unlimited."""
    if not own:
        return ProjectUsage(amounts.to_wire(amounts.UNLIMITED), uses)
    return ProjectUsage(
        amounts.to_wire(own[0].limit), counted[own[0].node_id, own[0].scope])
