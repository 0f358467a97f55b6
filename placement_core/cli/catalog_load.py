"""``placement-core catalog load``: a whole catalog from a file."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from placement_core.catalog import loading
from placement_core.cli import base
from placement_core.cli.catalog_base import CatalogCommand, Rows
from placement_core.context import Context
from placement_core.http import validation
from placement_core.limits import project_moves
from placement_core.plugin_api.catalog import Project

_TEXT = {"type": "string"}
_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}


def _make_schema(required: Mapping[str, Any], optional: Mapping[str, Any]) -> validation.Schema:
    return validation.Schema(
        {"type": "object", "properties": {**required, **optional}, "required": [*required],
         "additionalProperties": False},
        validation.is_uuid_like)


#: What a file may hold: {section: the schema of its entries}.
_SCHEMAS = {
    "regions": _make_schema(
        {"id": _TEXT}, {"parent_region_id": _OR_NULL, "description": _TEXT}),
    "services": _make_schema(
        {"type": _TEXT},
        {"id": _TEXT, "name": _TEXT, "description": _TEXT, "enabled": _FLAG}),
    "endpoints": _make_schema(
        {"service": _TEXT, "interface": _TEXT, "url": _TEXT},
        {"id": _TEXT, "region_id": _OR_NULL, "enabled": _FLAG}),
    "domains": _make_schema(
        {"name": _TEXT}, {"id": _TEXT, "description": _TEXT, "enabled": _FLAG}),
    "projects": _make_schema(
        {"name": _TEXT, "domain": _TEXT},
        {"id": _TEXT, "parent": _TEXT, "description": _TEXT, "enabled": _FLAG}),
}


class LoadCatalog(CatalogCommand, base.Lister):
    """Bring the catalog to what a YAML or JSON file says, all of it or nothing.

    The file has lists: regions (id, parent_region_id, description), services (type, name,
    description, enabled), endpoints (service, interface, url, region_id, enabled), domains
    (name, description, enabled), projects (name, domain, parent, description, enabled); all
    but regions may have an id. What is not in the file stays. Safe to repeat: what is there
    already is reported as unchanged.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=pathlib.Path)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        document = _read_file(parsed_args.file)

        def update_project(ctx: Context, id_: str, **changes: Any) -> Project:
            return project_moves.update_project(ctx, self.model, id_, **changes)

        self.empty = f"{parsed_args.file} has no entries: nothing to bring to the catalog."
        with self.context(parsed_args) as ctx:
            loaded = loading.load(
                ctx, document, max_depth=self.model.max_depth, update_project=update_project)
        return ("kind", "name", "id", "outcome", "changed"), [
            (entry.kind, entry.name, entry.id, entry.outcome, base.Words(entry.changed))
            for entry in loaded]


def _read_file(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Read a catalog's file.

    :raises base.Failed: naming the entry that is not what it should be.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise base.Failed(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not set(document) <= set(_SCHEMAS):
        raise base.Failed(f"{path}: expected a mapping with some of {', '.join(_SCHEMAS)}")
    for section, entries in document.items():
        if not isinstance(entries, list):
            raise base.Failed(f"{path}: {section}: expected a list")
        for number, entry in enumerate(entries, 1):
            problem = _SCHEMAS[section].validate(entry)
            if problem is not None:
                raise base.Failed(f"{path}: {section}, entry {number}: {problem.splitlines()[0]}")
    return document
