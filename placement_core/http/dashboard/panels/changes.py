"""What happened? The last changes of leases and limits, what failed, which requests were refused,
and who wrote what last.
"""

from __future__ import annotations

import dataclasses

from placement_core import recent_changes
from placement_core.changes import audit, kinds
from placement_core.changes.audit import AuditEntry, AuditFilter
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import projects, rendering, scopes, sections
from placement_core.http.dashboard.sections import Section
from placement_core.http.operations import Call
from placement_core.recent_changes import RecentChange
from placement_core.reservations.leases import notifications
from placement_core.workers import store
from placement_core.workers.records import Refusal

#: The policy rules of the sources.
RULES = (policies.RESERVATIONS_NOTICES, policies.LIMIT_HISTORY, policies.RESERVATIONS_RETRY_EVENT,
         policies.THRESHOLDS_LIST)
#: That of ``read_writes``.
WRITES_RULE = policies.AUDIT_LIST
#: That of ``read_refusals``.
REFUSALS_RULE = policies.REFUSALS_LIST

#: How notifications of leases read.
_TEXTS = {
    notifications.CREATED: "Lease made", notifications.CHANGED: "Lease changed",
    notifications.DELETED: "Lease deleted", notifications.STARTED: "Lease began",
    notifications.ENDS_SOON: "Lease ends soon", notifications.ENDED: "Lease ended",
}
#: {kind of an object: the folder of its page}, if it has a page of its own.
_FOLDERS = {kinds.PROVIDER: "/hosts", kinds.LEASE: "/leases"}
_LIMITS = {kinds.LIMIT, kinds.REGISTERED_LIMIT, kinds.USER_LIMIT}


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change, and how it reads.

    :ivar href: of the page of what it happened to.
    """

    text: str
    href: str
    change: RecentChange


@dataclasses.dataclass(frozen=True, slots=True)
class WriteRow:
    """An object that a request wrote.

    :ivar href: of its page; None: it has none.
    """

    href: str | None
    entry: AuditEntry


def read_changes(call: Call, most: int) -> list[ChangeRow]:
    """Return the last changes that the caller may see, the newest first."""
    return [ChangeRow(_describe(change), _find_page_of_change(call, change), change)
            for change in recent_changes.list_recent(
                call.ctx, most,
                leases=scopes.find_scope(call, policies.RESERVATIONS_NOTICES),
                limits=scopes.find_scope(call, policies.LIMIT_HISTORY),
                failures=call.allows(policies.RESERVATIONS_RETRY_EVENT),
                thresholds=call.services.thresholds is not None and call.allows(
                    policies.THRESHOLDS_LIST))]


def read_writes(call: Call, most: int) -> Section[list[WriteRow]]:
    """Return who wrote what last; a section without anything for those who may not know.

    So it is if the audit is off, too.
    """
    if not (call.services.conf.audit.enabled and call.allows(WRITES_RULE)):
        return Section(None)
    return sections.read(call, WRITES_RULE, lambda: [
        WriteRow(_find_page_of_object(call, entry), entry)
        for entry in audit.list_(call.ctx, AuditFilter(), limit=most)])


def read_refusals(call: Call, most: int) -> Section[list[Refusal]]:
    """Return which requests were refused last; nothing for those who may not know."""
    scope = scopes.find_scope(call, REFUSALS_RULE)
    if scope is None:
        return Section(None)
    return sections.read(call, REFUSALS_RULE, lambda: store.list_refusals(
        call.ctx, most, project_id=scope.project_id))


def _describe(change: RecentChange) -> str:
    if change.kind == "limit":
        return f"Limit {change.what}"
    if change.kind == "event":
        return f"{change.what} failed"
    if change.left is not None:
        return "Capacity is short no more" if change.what == "capacity" else (
            f"{change.left.level:,} % of a limit left")
    if change.reached is not None:
        return "Capacity is short" if change.what == "capacity" else (
            f"{change.reached.level:,} % of a limit reached")
    return _TEXTS.get(change.what, change.what)


def _find_page_of_change(call: Call, change: RecentChange) -> str:
    if change.kind in ("lease", "event"):
        return _make_url(call, f"/leases/{change.subject_id}")
    if change.what == "capacity":
        return _make_url(call, "/explain", resources=change.subject_name)
    if change.project_id is not None:
        return projects.make_url(call, change.project_id)
    return _make_url(call, "/projects", resource=change.subject_name)


def _find_page_of_object(call: Call, entry: AuditEntry) -> str | None:
    if entry.kind in _LIMITS and entry.name is not None:
        return _make_url(call, "/projects", resource=entry.name)
    folder = _FOLDERS.get(entry.kind or "")
    return None if folder is None or entry.uuid is None else _make_url(
        call, f"{folder}/{entry.uuid}")


def _make_url(call: Call, path: str, **query: str | None) -> str:
    return rendering.make_url(rendering.get_mount(call), path, query)
