"""GET /capacity/v1/workers and /refusals: the processes that serve, and what they refused."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.workers import store
from placement_core.workers.records import Refusal, Worker

#: How many are listed by default.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the processes that served in the last hour, those heard of last first."""
    workers = store.list_workers(call.ctx, call.parse_page().size or _PAGE)
    return Reply(body={"workers": [_render_worker(worker) for worker in workers]})


def list_refusals(call: Call) -> Reply:
    """Return the requests that were refused in the last hour, the newest first."""
    refusals = store.list_refusals(
        call.ctx, call.parse_page().size or _PAGE,
        project_id=pages.get_last(call.query, "project_id"))
    return Reply(body={"refusals": [_render_refusal(refusal) for refusal in refusals]})


def _render_worker(worker: Worker) -> dict[str, Any]:
    document = dataclasses.asdict(worker)
    del document["silent_seconds"]
    return {**document, "alive": worker.is_alive}


def _render_refusal(refusal: Refusal) -> dict[str, Any]:
    document = dataclasses.asdict(refusal)
    return {**document.pop("cause"), **document}
