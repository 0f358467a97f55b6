"""/capacity/v1/cells: which cells there are, and whether they answer."""

from __future__ import annotations

from typing import Any

from placement_core.cells import mappings, schema
from placement_core.cells.records import Cell
from placement_core.http import pages
from placement_core.http.operations import Call, Reply


def list_(call: Call) -> Reply:
    """Return all cells, and how they are if the query says so."""
    return Reply(body={"cells": _render_cells(call, call.services.cells.cells(call.ctx))})


def create(call: Call) -> Reply:
    """Add a cell; no connection to its database is made yet."""
    cell = mappings.create(call.ctx, call.services.cells, **call.body["cell"])
    return Reply(201, {"cell": _render(cell)}, location=f"/capacity/v1/cells/{cell.uuid}")


def show(call: Call) -> Reply:
    """Return one cell, and how it is if the query says so."""
    cell = mappings.get(call.ctx, call.services.cells, call.path["cell"])
    return Reply(body={"cell": _render_cells(call, [cell])[0]})


def update(call: Call) -> Reply:
    """Change a cell: its name, its URLs, or whether it is disabled."""
    cell = mappings.update(
        call.ctx, call.services.cells, call.path["cell"], call.body["cell"])
    return Reply(body={"cell": _render(cell)})


def delete(call: Call) -> Reply:
    """Remove a cell that nothing is mapped to; its database stays as it is."""
    mappings.delete(call.ctx, call.services.cells, call.path["cell"])
    return Reply(204)


def _render_cells(call: Call, cells: list[Cell]) -> list[dict[str, Any]]:
    documents = [_render(cell) for cell in cells]
    if pages.get_last(call.query, "check") == "true":
        checked = schema.check(call.ctx, call.services.cells, cells)
        reasons = {cell.uuid: cell.reason for cell in checked.missing}
        for cell, document in zip(cells, documents, strict=True):
            tables = checked.answers.get(cell.uuid)
            document["check"] = {
                "answers": tables is not None,
                "seconds": checked.seconds[cell.title],
                "reason": reasons.get(cell.uuid),
                "tables": tables,
                "missing_tables":
                    None if tables is None else sorted({*schema.TABLES} - {*tables}),
            }
    return documents


def _render(cell: Cell) -> dict[str, Any]:
    return {
        "uuid": cell.uuid, "name": cell.name, "disabled": cell.disabled,
        "database_connection": cell.masked_connection, "transport_url": cell.masked_transport}
