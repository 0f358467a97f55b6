"""Asks an external service of the site about leases, over HTTP.

Requests have the form of those of Blazar's ``ExternalServiceFilter``; the service answers 204, or
403 with the reason. Nothing is sent inside a transaction, and no request is repeated.
Source: Blazar's documentation, usage enforcement; differs: any other answer is not a refusal, and
a host with several slots of a reservation is sent once, with the number of slots.
"""

from __future__ import annotations

import datetime
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from keystoneauth1 import exceptions
from oslo_config import cfg

from placement_core import db, errors
from placement_core.client_sessions import ClientSession
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.plugin_api.reservations import Share
from placement_core.reservations import tables
from placement_core.reservations.errors import PolicyRefused
from placement_core.reservations.records import TERMINATED, Lease, NewLease

LOG = logging.getLogger(__name__)

_LONGEST_REASON = 1000

_reservations, _shares, _hosts = (
    tables.lease_reservations, tables.computehost_allocations, tables.computehosts)
_names, _capabilities = tables.resource_properties, tables.computehost_extra_capabilities

_SHARES = (
    sa.select(_shares.c.reservation_id, _shares.c.computehost_id, _shares.c.slots,
              _shares.c.end_second)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .where(_reservations.c.lease_id == sa.bindparam("lease_id"))
    .order_by(_shares.c.computehost_id, _shares.c.start_second))
_NAMES = sa.select(_hosts.c.id, _hosts.c.name).where(lists.among_many(_hosts.c.id, "ids"))
_CAPABILITIES = (
    sa.select(_capabilities.c.computehost_id, _names.c.property_name,
              _capabilities.c.capability_value)
    .join(_names, _names.c.id == _capabilities.c.property_id)
    .where(lists.among_many(_capabilities.c.computehost_id, "ids")))

#: A share of a host: (host id, slots).
_HostShare = tuple[int, int]


class ExternalService:
    """The service that ``[enforcement]`` configures, if any. Thread-safe."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the options.

        :raises errors.ConfigurationError: an address is invalid.
        """
        options = self._options = conf.enforcement
        self._create = self._build_url(options.external_service_check_create, "check-create")
        self._update = self._build_url(options.external_service_check_update, "check-update")
        self._end = self._build_url(options.external_service_on_end, "on-end")
        self._http = ClientSession(
            verify=not options.external_service_insecure and (
                options.external_service_cafile or True),
            timeout=options.external_service_timeout_seconds, user_agent="placement_core")

    @property
    def asks(self) -> bool:
        """Return whether the service is asked before leases are created or changed."""
        return self._create is not None or self._update is not None

    @property
    def asks_about_new(self) -> bool:
        """Return whether the service is asked before leases are created."""
        return self._create is not None

    def check(
        self, ctx: Context, new: NewLease, before: Lease | None,
        plan: Callable[[], Sequence[Sequence[Share]] | None],
    ) -> bool:
        """Ask whether a lease may be created or changed.

        :param new: the new or changed lease, with its start time.
        :returns: whether it was asked; not about a change of nothing.
        :raises PolicyRefused: with the reason that the service gave.
        :raises errors.Unavailable: it answered neither 204 nor 403, or not at all.
        """
        url = self._create if before is None else self._update
        if url is None:
            return False
        reservations = plan()
        if reservations is None:
            return False
        planned = [[(share.host_id, share.slots) for share in shares] for shares in reservations]
        held = {} if before is None else _read_last_shares(ctx, before)
        hosts = _describe_hosts(ctx, {
            host_id for host_shares in (*planned, *held.values()) for host_id, _ in host_shares})
        question = {"context": self._build_context(new.user_id, new.project_id),
                    "lease": _render_new(new, before, planned, hosts)}
        if before is not None:
            question["current_lease"] = _render_lease(before, held, hosts)
        status, reason = self._post(url, question)
        if status == 403:
            raise PolicyRefused(reason or "The lease was refused without a reason.")
        if status != 204:
            raise errors.Unavailable(
                f"The service that judges leases ([enforcement]) answered {status}; expected "
                "204 or 403.")
        return True

    def notify_end(self, ctx: Context, lease: Lease) -> None:
        """Notify the service that a lease has ended; errors are logged."""
        if self._end is None:
            return
        try:
            held = _read_last_shares(ctx, lease)
            hosts = _describe_hosts(ctx, {
                host_id for host_shares in held.values() for host_id, _ in host_shares})
            status, _ = self._post(self._end, {
                "context": self._build_context(lease.user_id, lease.project_id),
                "lease": _render_lease(lease, held, hosts)})
        except errors.Error as error:
            LOG.warning("nobody was told that the lease %s has ended: %s", lease.id, error)
            return
        if status != 204:
            LOG.warning("told that the lease %s has ended, the service that judges leases "
                        "([enforcement]) answered %s", lease.id, status)

    def _build_url(self, whole: str, name: str) -> str | None:
        endpoint = self._options.external_service_endpoint
        url = whole or (f"{endpoint.rstrip('/')}/{name}" if endpoint else "")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            option = name.replace("-", "_") if whole else "endpoint"
            raise errors.ConfigurationError(
                f"[enforcement] external_service_{option} = {whole or endpoint}: expected an "
                "address that begins with http:// or https://")
        return url

    def _build_context(self, user_id: str, project_id: str) -> dict[str, Any]:
        return {
            "user_id": user_id, "project_id": project_id,
            "auth_url": self._options.external_service_auth_url or None,
            "region_name": self._options.external_service_region_name or None}

    def _post(self, url: str, document: Mapping[str, Any]) -> tuple[int, str]:
        """Send a document; return the status of the answer, and the reason in it."""
        token = self._options.external_service_token
        try:
            response = self._http.request(
                url, "POST", json=document, headers={"X-Auth-Token": token} if token else {},
                authenticated=False, raise_exc=False, redirect=False)
        except exceptions.ClientException as error:
            raise errors.Unavailable(
                "The service that judges leases ([enforcement]) cannot be asked now: "
                f"{error}") from error
        return response.status_code, _parse_reason(response)


def _parse_reason(response: Any) -> str:
    try:
        document = response.json()
    except ValueError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return message[:_LONGEST_REASON] if isinstance(message, str) else ""


@db.retry_writes
def _read_last_shares(ctx: Context, lease: Lease) -> dict[str, list[_HostShare]]:
    """Return {reservation id: shares} of a lease: the present ones, or those that it ended with.

    These end with the lease, or ended when it did; others were released before.
    """
    with db.read_once(ctx) as session:
        rows = session.execute(_SHARES, {"lease_id": lease.id}).all()
    last = lease.window.end
    if lease.status == TERMINATED and lease.updated_at is not None:
        last = min(last, int(lease.updated_at.timestamp()))
    by_reservation: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for row in rows:
        if row.end_second >= last:
            by_reservation[row.reservation_id][row.computehost_id] = row.slots
    return {id_: [*slots.items()] for id_, slots in by_reservation.items()}


@db.retry_writes
def _describe_hosts(ctx: Context, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return {host id: its document}, without hosts that have left the pool."""
    host_ids = sorted(ids)
    if not host_ids:
        return {}
    with db.read(ctx) as session:
        return _describe_hosts_in(session, host_ids)


def _describe_hosts_in(session: Session, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    hosts: dict[int, dict[str, Any]] = {
        row.id: {"id": str(row.id), "hypervisor_hostname": row.name, "extra": {}}
        for row in session.execute(_NAMES, {"ids": ids})}
    for row in session.execute(_CAPABILITIES, {"ids": ids}):
        hosts[row.computehost_id]["extra"][row.property_name] = row.capability_value
    return hosts


def _render_new(
    new: NewLease, before: Lease | None, planned: Sequence[Sequence[_HostShare]],
    hosts: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the document of a new or changed lease."""
    document = _render_dates(new)
    if before is not None:
        document["id"] = before.id
    if new.before_end_at is not None:
        document["before_end_date"] = _format_date(new.before_end_at)
    document["reservations"] = [
        {**reservation.raw_fields, "resource_type": reservation.resource_type,
         "allocations": _render_allocations(host_shares, hosts)}
        for reservation, host_shares in zip(new.reservations, planned, strict=True)]
    return document


def _render_lease(
    lease: Lease, held: Mapping[str, Sequence[_HostShare]],
    hosts: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the document of an existing lease."""
    return {
        **_render_dates(lease), "id": lease.id, "status": lease.status, "trust_id": lease.trust_id,
        "reservations": [
            {**reservation.fields, "id": reservation.id,
             "resource_type": reservation.resource_type, "status": reservation.status,
             "allocations": _render_allocations(held.get(reservation.id, ()), hosts)}
            for reservation in lease.reservations]}


def _render_dates(lease: Lease | NewLease) -> dict[str, Any]:
    assert lease.start_at is not None  # "now" was replaced
    return {
        "name": lease.name, "user_id": lease.user_id, "project_id": lease.project_id,
        "start_date": _format_date(lease.start_at), "end_date": _format_date(lease.end_at)}


def _render_allocations(
    host_shares: Iterable[_HostShare], hosts: Mapping[int, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {**hosts.get(host_id, {"id": str(host_id)}), "slots": slots}
        for host_id, slots in host_shares]


def _format_date(at: datetime.datetime) -> str:
    return f"{at.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}"
