"""Whether what is stored adds up: the numbers that a manager sets for monitoring now and then."""

from __future__ import annotations

import logging

from placement_core import metrics
from placement_core.context import Context
from placement_core.placement.index import CapacityIndex
from placement_core.placement.usage import audit
from placement_core.reservations.manager import heartbeats

LOG = logging.getLogger(__name__)

#: So many findings are logged; ``placement-core db audit`` shows all.
_MOST_LOGGED = 10


def export(ctx: Context, *, index: CapacityIndex, owner: str) -> None:
    """Audit the stored sums and the manager's capacity index; set metrics of it, and record it.

    The indexes of workers follow the same change log: what a write did not record, they lack, too,
    unless they were loaded later. What only one of them lacks is not found.

    :param owner: names the manager.
    """
    findings = [
        f"{finding.what} of {finding.where} is {finding.stored}, not {finding.actual}"
        for finding in audit.audit(ctx, repair=False)]
    findings += [
        f"the manager's capacity index lacks a change of the provider with the id {provider_id}"
        for provider_id in index.verify(ctx)]
    for finding in findings[:_MOST_LOGGED]:
        LOG.error("audit: %s", finding)
    metrics.set_audit(len(findings))
    heartbeats.record_audit(ctx, owner=owner, findings=len(findings))
