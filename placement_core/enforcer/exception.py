"""Exceptions of the enforcer library, apart from ValueError for invalid arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placement_core import errors
from placement_core.plugin_api.enforcement import Scope


@dataclasses.dataclass(frozen=True, slots=True)
class OverLimitInfo:
    """A limit that a claim would exceed.

    :ivar limit: never -1: an unlimited resource cannot be exceeded.
    :ivar current_usage: the present usage that counts against the limit.
    :ivar delta: the requested amount; 0 if the limit is exceeded already.
    :ivar node_id: the project or domain that has the limit; None for usage that belongs to no
        project.
    :ivar scope: ``own``: only the usage of that project counts; ``subtree``: that of all
        projects below it, too.
    Source: oslo.limit ``OverLimitInfo``, which has the first four.
    """

    resource_name: str
    limit: int
    current_usage: int
    delta: int
    node_id: str | None = None
    scope: Scope = "own"

    def __str__(self) -> str:
        where = f" of {self.node_id} with what is below it" if self.scope == "subtree" else ""
        return (f"{self.resource_name}: the limit{where} is {self.limit}, "
                f"{self.current_usage} in use, {self.delta} asked")


class ProjectOverLimit(errors.OverLimit):
    """A claim would exceed limits; one exception lists all of them.

    :ivar project_id: the claiming project; None: the usage belongs to no project.
    :ivar over_limit_info_list: ordered by resource name; for one resource, the project's
        own limit first, then upwards.
    Source: oslo.limit ``ProjectOverLimit``.
    """

    code = "placement.quota.exceeded"

    def __init__(
        self, project_id: str | None, over_limit_info_list: Sequence[OverLimitInfo]
    ) -> None:
        """Take the exceeded limits.

        :raises ValueError: the list is empty.
        """
        if not over_limit_info_list:
            raise ValueError("over_limit_info_list must not be empty")
        self.project_id = project_id
        self.over_limit_info_list = list(over_limit_info_list)
        super().__init__(f"Project {project_id} is over its limits: "
                         + "; ".join(map(str, over_limit_info_list)))


class SessionInitError(errors.Unavailable):
    """The service that has the limits cannot be reached or refuses the login."""
