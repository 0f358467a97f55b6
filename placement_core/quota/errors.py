"""Errors of quota: checks, re-checks, claims, and the source of limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from placement_core import errors
from placement_core.plugin_api.counting import MissingCell
from placement_core.quota.records import ExceededLimit


class UnknownResource(errors.Invalid):
    """A resource name that maps to nothing that is counted."""

    code = "quota.resource.unknown"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No usage is counted for {name}: expected class: and the name of a resource "
            "class, or a name of [quota] resource_map.")
        self.name = name


class UncountedResource(errors.Invalid):
    """A resource name that the counting driver does not count."""

    code = "quota.resource.uncounted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The usage of {name} is not known: the counting driver does not count it.")
        self.name = name


class UnknownProject(errors.Invalid):
    """A project that the request names does not exist."""

    code = "quota.project.unknown"

    def __init__(self, project_id: str) -> None:
        super().__init__(f"There is no project or domain {project_id}.")
        self.project_id = project_id


class ProjectNotFound(errors.NotFound):
    """The project in the URL does not exist."""

    code = "quota.project.not_found"

    def __init__(self, project_id: str) -> None:
        super().__init__(f"There is no project or domain {project_id}.")
        self.project_id = project_id


class InvalidId(errors.Invalid):
    """The id of a project or user has a character that no database can store."""

    code = "quota.id.impossible"

    def __init__(self) -> None:
        super().__init__("The id of a project or user holds a character that is none.")


class UnknownConsumers(errors.Invalid):
    """A re-check names consumers that the project does not have."""

    code = "quota.consumer.unknown"

    def __init__(self, project_id: str, uuids: Sequence[str]) -> None:
        super().__init__(
            f"The project {project_id} has no such instances or consumers: {', '.join(uuids)}.")
        self.uuids = uuids


class MissingCells(errors.Unavailable):
    """Usage is not known, because cells do not answer.

    :ivar cells: the cells that the count lacks.
    """

    code = "quota.cells.missing"

    def __init__(self, cells: Sequence[MissingCell]) -> None:
        reasons = "; ".join(f"cell {cell.name} ({cell.uuid}): {cell.reason}" for cell in cells)
        super().__init__(
            f"What is used cannot be counted: {reasons}. [quota] on_missing_cell says what "
            "becomes of a check then.")
        self.cells = cells


class InvalidCounts(errors.Invalid):
    """``min_count`` is greater than ``max_count``."""

    code = "quota.count.invalid"

    def __init__(self, min_count: int, max_count: int) -> None:
        super().__init__(f"min_count ({min_count}) is more than max_count ({max_count}).")


class RecheckBusy(errors.Unavailable):
    """Other requests kept being accepted while a re-check counted."""

    code = "quota.recheck.busy"

    def __init__(self) -> None:
        super().__init__("Too many re-checks of the same limits at once; please try again.")


class AmbiguousService(errors.Unavailable):
    """The catalog has several services of the type whose limits bind claims."""

    code = "quota.service.ambiguous"

    def __init__(self, service_type: str, ids: Sequence[str]) -> None:
        super().__init__(
            f"The catalog has {len(ids)} services of the type {service_type} "
            f"([quota] service_type): expected one; found {', '.join(sorted(ids))}.")
        self.service_type = service_type


class AmbiguousRegion(errors.Unavailable):
    """The catalog has several regions, and ``[quota] region`` does not say whose limits count.

    :ivar names: the resources that are registered in regions only.
    """

    code = "quota.region.ambiguous"

    def __init__(self, region_ids: Collection[str], names: Collection[str]) -> None:
        super().__init__(
            f"The catalog has {len(region_ids)} regions ({', '.join(sorted(region_ids))}) and "
            "[quota] region is empty: nobody can tell which limits count on "
            f"{', '.join(sorted(names))}. Set [quota] region.")
        self.names = names


class QuotaExceeded(errors.OverLimit):
    """A claim does not fit into limits that bind its project.

    :ivar exceeded_limits: all of these limits.
    """

    code = "placement.quota.exceeded"

    def __init__(self, exceeded_limits: Sequence[ExceededLimit]) -> None:
        super().__init__("; ".join(limit.sentence() for limit in exceeded_limits) + ".")
        self.exceeded_limits = exceeded_limits


class ClaimNotFound(errors.NotFound):
    """There is no such claim: its consumer has no allocations."""

    code = "claim.not_found"

    def __init__(self, consumer_uuid: str) -> None:
        super().__init__(f"There is no claim {consumer_uuid}.")
        self.consumer_uuid = consumer_uuid


class ClaimExpired(errors.Conflict):
    """A claim was not confirmed in time, and others may take what it held."""

    code = "claim.expired"

    def __init__(self, consumer_uuid: str) -> None:
        super().__init__(f"The claim {consumer_uuid} expired before it was confirmed.")
        self.consumer_uuid = consumer_uuid


class ClaimExists(errors.Conflict):
    """The consumer has allocations already."""

    code = "claim.exists"

    def __init__(self, consumer_uuid: str) -> None:
        super().__init__(
            f"The consumer {consumer_uuid} holds something already: what it holds is changed "
            "with PUT /allocations.")
        self.consumer_uuid = consumer_uuid


class HoldTooLong(errors.Invalid):
    """A claim asks to be held for longer than the operator allows."""

    code = "claim.hold.too_long"

    def __init__(self, asked: int, longest: int) -> None:
        super().__init__(
            f"A claim can be held for {longest} seconds at most; {asked} were asked for.")
        self.asked = asked
        self.longest = longest


class InvalidClaim(errors.Invalid):
    """The parameters of a claim contradict each other."""

    code = "claim.invalid"
