"""What the commands of the catalog share: one thing is shown or removed, several are listed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from placement_core.catalog import endpoints
from placement_core.cli import base
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

Fields = tuple[tuple[str, ...], tuple[object, ...]]
Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


class CatalogCommand(base.Configured):
    """A command that works on the catalog of the configured database.

    :ivar model: how limits are read in trees of projects, while the database is open.
    """

    model: EnforcementModel

    @contextlib.contextmanager
    def context(self, parsed_args: argparse.Namespace) -> Iterator[Context]:
        """Open the database."""
        with self.parts(parsed_args) as (parts, ctx):
            self.model = parts.model
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
        return list_fields(type(record)), dataclasses.astuple(record)


class RecordLister(CatalogCommand, base.Lister):
    """A command that lists things of a kind."""

    kind: type[Record]

    def read(self, ctx: Context, parsed_args: argparse.Namespace) -> Sequence[Record]:
        """Return what is to be listed."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the command."""
        with self.context(parsed_args) as ctx:
            records = self.read(ctx, parsed_args)
        return list_fields(self.kind), [dataclasses.astuple(record) for record in records]


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


def list_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the names of its fields: the columns that are shown."""
    return tuple(field.name for field in dataclasses.fields(kind))


def add_id_and_disable(parser: argparse.ArgumentParser) -> None:
    """Add what is asked for of whatever can be disabled."""
    parser.add_argument("--id", metavar="ID", help="its id; a random one if none is given")
    parser.add_argument("--disable", action="store_true", help="add it as disabled")
