"""What the commands of the catalog share: one thing is shown or removed, several are listed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from placement_core.catalog import endpoints
from placement_core.cli import base
from placement_core.cli.names import CatalogNames
from placement_core.context import Context
from placement_core.limits import cleanup
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service
from placement_core.plugin_api.enforcement import EnforcementModel

Record = Region | Service | Endpoint | Domain | Project

#: How each kind is removed, with the limits that are about it.
_DELETE: Mapping[type[Record], Callable[[Context, str], None]] = {
    Region: cleanup.delete_region, Service: cleanup.delete_service, Endpoint: endpoints.delete,
    Domain: cleanup.delete_domain, Project: cleanup.delete_project,
}

#: The fields that hold ids of something with a name.
_NAMED: Mapping[str, Callable[[CatalogNames, str], base.NameOrId]] = {
    "service_id": CatalogNames.service, "domain_id": CatalogNames.node,
    "parent_id": CatalogNames.node,
}

Fields = tuple[tuple[str, ...], tuple[object, ...]]
Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class CatalogCommand(base.Configured):
    """A command that works on the catalog of the configured database.

    :ivar model: how limits are read in trees of projects, while the database is open.
    :ivar names: names of what else is in the catalog, likewise.
    """

    model: EnforcementModel
    names: CatalogNames

    @contextlib.contextmanager
    def context(self, parsed_args: argparse.Namespace) -> Iterator[Context]:
        """Open the database."""
        with self.parts(parsed_args) as (parts, ctx):
            self.model = parts.model
            self.names = CatalogNames(parts, ctx, self.note)
            yield ctx


class RecordShower(CatalogCommand, base.Shower):
    """A command that shows one thing."""

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return what is to be shown."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            record = self.find(ctx, parsed_args)
            return list_columns(type(record)), make_row(record, self.names)


class RecordLister(CatalogCommand, base.Lister):
    """A command that lists things of a kind."""

    kind: type[Record]
    beside = ("service_id", "domain_id", "parent_id")

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            records = self.read(ctx, parsed_args)
            self.empty = f"The catalog has no {self.kind.__name__.lower()}s" + (
                self.describe(parsed_args)) + "."
            return list_columns(self.kind), [
                make_row(record, self.names) for record in records]

    def describe(self, parsed_args: argparse.Namespace) -> str:
        """Return which filters were given."""
        return base.describe_filters(**{
            name: getattr(parsed_args, name, None)
            for name in ("type", "name", "service", "region", "interface", "domain", "parent")})


class RecordRemover(CatalogCommand, base.Command):
    """A command that removes one thing."""

    def find(self, ctx: Context, parsed_args: argparse.Namespace) -> Record:
        """Return what is to be removed."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            record = self.find(ctx, parsed_args)
            _DELETE[type(record)](ctx, record.id)
        return 0


def list_columns(kind: type[Record]) -> tuple[str, ...]:
    """Return the columns of a kind: its fields, with names beside ids."""
    return tuple(
        column for field in dataclasses.fields(kind)
        for column in ((field.name, f"{field.name.removesuffix('_id')}_name")
                       if field.name in _NAMED else (field.name,)))


def make_row(record: Record, names: CatalogNames) -> tuple[object, ...]:
    """Return what the columns of a record hold."""
    return tuple(
        cell for field in dataclasses.fields(record) for value in [getattr(record, field.name)]
        for cell in ((value, _NAMED[field.name](names, value)) if field.name in _NAMED
                     else (value,)))


def add_id_and_disable(parser: argparse.ArgumentParser) -> None:
    """Add what is asked for of whatever can be disabled."""
    parser.add_argument("--id", metavar="ID", help="its id; a random one if none is given")
    parser.add_argument("--disable", action="store_true", help="add it as disabled")
