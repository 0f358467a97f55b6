"""What ``migrate diff`` finds, without the command."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from placement_core.context import Context
from placement_core.takeover import comparisons
from placement_core.takeover.records import Contents, Item
from placement_core.takeover.sources import Source
from placement_core.takeover.targets import SpoolTarget, Target


def compare(
    ctx: Context, read: Sequence[tuple[Source, Contents]], targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (),
) -> comparisons.Result:
    """Compare what was read of some sources with ours."""
    kinds = {kind for source, _ in read for kind in source.kinds}
    return comparisons.compare(
        ctx, [comparisons.Side(
            source.origin, "somewhere", source.kinds, contents, source.own_kinds)
            for source, contents in read],
        [target for target in targets if target.kind in kinds], spool_targets,
        now=lambda: datetime.datetime.now(datetime.UTC), report=lambda *_: None)


def diff(
    ctx: Context, read: Sequence[tuple[Source, Contents]], targets: Sequence[Target],
    spool_targets: Sequence[SpoolTarget] = (),
) -> Sequence[Item]:
    """Return what differs."""
    return compare(ctx, read, targets, spool_targets).differences
