"""``placement-core migrate``: take over what the services of a running cloud know."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from placement_core import services as service_parts
from placement_core.cli import base
from placement_core.context import Context
from placement_core.takeover import (
    blazar,
    blazar_targets,
    copying,
    keystone,
    nova_quotas,
    records,
    sources,
    targets,
)
from placement_core.takeover.errors import NowhereToCopy
from placement_core.takeover.records import Contents, Item, Outcome, Record, Surroundings
from placement_core.takeover.sources import Source
from placement_core.takeover.targets import Target

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]


def _make_keystone(_conf: str | None) -> Source:
    return Source("keystone", keystone.KINDS, keystone.SCHEMA, keystone.read)


def _make_nova_api(conf: str | None) -> Source:
    return Source("nova-api", nova_quotas.KINDS, nova_quotas.SCHEMA, functools.partial(
        nova_quotas.read, defaults=nova_quotas.read_defaults(conf)))


def _make_blazar(_conf: str | None) -> Source:
    return Source(blazar.SOURCE, blazar.KINDS, blazar.SCHEMA, blazar.read)


#: What can be taken over, by the name of the service that has it: makes the source, with the path
#: of the service's configuration, if it is given.
_SOURCES: Mapping[str, Callable[[str | None], Source]] = {
    "keystone": _make_keystone, "nova-api": _make_nova_api, "blazar": _make_blazar}

_LIMIT_KINDS = frozenset({records.REGISTERED_LIMIT, records.LIMIT, records.USER_LIMIT})

#: What is read: (the name of a service, the URL of its database, the path of its configuration).
_Address = tuple[str, str, str | None]
_EQUAL, _WARNINGS, _BLOCKERS = 0, 1, 2
#: What people are to look at one by one.
_NOTEWORTHY = (Outcome.UPDATE, Outcome.GONE, Outcome.PRUNED, Outcome.SKIPPED, Outcome.REFUSED)
_DIFFERENCES = {
    Outcome.CREATE: "missing", Outcome.UPDATE: "different", Outcome.GONE: "extra"}
_COLUMNS = ("kind", "id", "name", "outcome", "details")


@dataclasses.dataclass(frozen=True, slots=True)
class _Here:
    """Where records go.

    :ivar targets: in the order in which records are copied.
    """

    parts: service_parts.Services
    ctx: Context
    targets: Sequence[Target]

    def list_targets(self, source: Source) -> list[Target]:
        """Return where the records of a source go."""
        return [target for target in self.targets if target.kind in source.kinds]

    def read(
        self, addresses: Iterable[_Address]
    ) -> Iterator[tuple[Source, Contents, Sequence[Record]]]:
        """Read sources one after the other, each as it is to be beside those before it.

        Yields them with the records of those before.
        """
        earlier: list[Record] = []
        for name, url, conf in addresses:
            source = _SOURCES[name](conf)
            contents = sources.read(source, url, self._look_around(source, earlier))
            yield source, contents, earlier
            earlier += contents.records

    def check(self, addresses: Iterable[_Address]) -> list[Item]:
        """Return what a copy would make of each record of some sources."""
        return [
            item for source, contents, earlier in self.read(addresses)
            for item in copying.check(
                self.ctx, source.name, contents, self.list_targets(source), earlier)]

    def _look_around(self, source: Source, earlier: Sequence[Record]) -> Surroundings:
        """Return what is here, and what sources have that were read earlier."""
        options, catalog = self.parts.conf.quota, self.parts.catalog
        service_ids = {service.id for service in catalog.services(
            self.ctx, service_type=options.service_type)}
        service_ids |= {record.id for record in earlier if record.kind == records.SERVICE
                        and record.fields["type"] == options.service_type}
        project_ids = {project.id for project in catalog.projects(self.ctx)}
        project_ids |= {record.id for record in earlier if record.kind == records.PROJECT}
        return Surroundings(
            service_ids.pop() if len(service_ids) == 1 else None, options.region or None,
            project_ids,
            blazar_targets.read_providers(self.ctx) if records.HOST in source.kinds else {},
            self.parts.reservation_plugins)


class _Migration(base.Checker):
    """A command that reads other services' databases."""

    empty = "The sources have nothing to copy."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--from", dest="sources", metavar="SERVICE=URL[,CONF]", action="append", required=True,
            type=_parse_source,
            help=f"a service and the URL of its database; services: {', '.join(_SOURCES)}; "
            "nova-api also takes the path of nova.conf, for its defaults: "
            "nova-api=URL,/etc/nova/nova.conf; repeatable, in the order of the copy")
        return parser

    @contextlib.contextmanager
    def _open(self, parsed_args: argparse.Namespace) -> Iterator[_Here]:
        with self.parts(parsed_args) as (parts, ctx):
            if any(_LIMIT_KINDS & set(_SOURCES[name](conf).kinds)
                   for name, _, conf in parsed_args.sources):
                _require_local(parts)
            yield _Here(parts, ctx, [
                *targets.list_targets(parts.catalog, parts.model),
                *blazar_targets.list_targets()])

    def _list(self, parsed_args: argparse.Namespace, items: Sequence[Item]) -> Rows:
        """Return the rows of items; for people, only those to look at, below the counts."""
        if parsed_args.formatter != base.TABLE or not items:
            return _COLUMNS, [_make_row(item) for item in items]
        for kind, counts in copying.count_outcomes(items).items():
            self.say(f"{records.name_many(kind):18} " + ", ".join(
                f"{count} {outcome}" for outcome, count in counts.items() if count))
        noteworthy = [item for item in items if item.outcome in _NOTEWORTHY or item.reason]
        return (_COLUMNS if noteworthy else ()), [_make_row(item) for item in noteworthy]


class CheckMigration(_Migration):
    """Say what a copy of other services' records would do, without any change.

    Reads each source in one snapshot, and compares it with ours by the ids that records have
    there. Outcomes: create, update (ours differs), equal, gone (copied earlier, and not in the
    source any more), skipped (it means nothing in the source either), refused (it cannot be
    copied as it is); for people, what is created or equal is only counted.

    Exit code 0: everything can be copied. 1: something is skipped, gone, or has details that say
    what it was in the source. 2: something is refused. 255: the check did not run.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the check."""
        with self._open(parsed_args) as here:
            items = here.check(parsed_args.sources)
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class CopyMigration(_Migration):
    """Copy other services' records; without --execute, say what it would do.

    Safe to repeat, and to kill: records keep their ids, each batch is one transaction, and the
    next run goes on with what is not equal. What was copied and is gone from the source stays,
    unless --prune is given. Outcomes and exit codes are those of "migrate check"; create and
    update are done then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--execute", action="store_true", help="change our database")
        parser.add_argument(
            "--prune", action="store_true",
            help="delete what was copied earlier and is gone from the source")
        parser.add_argument(
            "--pace", metavar="RECORDS", type=base.parse_count,
            help="how many records to write in a second at most")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the copy."""
        with self._open(parsed_args) as here:
            if parsed_args.execute:
                with self.progress() as bars:
                    items = [
                        item for source, contents, _ in here.read(parsed_args.sources)
                        for item in copying.copy(
                            here.ctx, source.name, contents, here.list_targets(source),
                            prune=parsed_args.prune, pace=parsed_args.pace, report=bars.report)]
            else:
                items = here.check(parsed_args.sources)
        self.exit_code = _find_exit_code(items)
        return self._list(parsed_args, items)


class DiffMigration(_Migration):
    """Say what of other services' records is not the same here.

    A line for each difference: missing (not here), extra (here only), different (with both
    values). Records that cannot be copied are left out; "migrate check" names them.

    Exit code 0: all is equal. 1: it is not. 255: the comparison did not run.
    """

    empty = "All is equal."

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run the comparison."""
        with self._open(parsed_args) as here:
            read = list(here.read(parsed_args.sources))
            kinds = {kind for source, _, _ in read for kind in source.kinds}
            contents = Contents(
                [record for _, of_source, _ in read for record in of_source.records],
                [item for _, of_source, _ in read for item in of_source.left])
            differences = copying.diff(
                here.ctx, contents, [target for target in here.targets if target.kind in kinds])
        self.exit_code = int(bool(differences))
        return ("kind", "id", "name", "difference", "details"), [
            (item.kind, item.id, item.name, _DIFFERENCES[item.outcome], _describe(item))
            for item in differences]


def _parse_source(text: str) -> _Address:
    name, equals, rest = text.partition("=")
    if not equals or name not in _SOURCES:
        raise argparse.ArgumentTypeError(
            f"expected SERVICE=URL, where SERVICE is one of {', '.join(_SOURCES)}")
    url, comma, conf = rest.rpartition(",")
    return (name, url, conf) if comma and conf.endswith(".conf") else (name, rest, None)


def _require_local(parts: service_parts.Services) -> None:
    """Refuse to copy limits of which another service is in charge."""
    if not parts.limits.transactional:
        raise NowhereToCopy(
            "limits", "[limits] driver", parts.conf.limits.driver, "local")


def _find_exit_code(items: Sequence[Item]) -> int:
    outcomes = {item.outcome for item in items}
    if Outcome.REFUSED in outcomes:
        return _BLOCKERS
    noted = any(item.reason for item in items)
    return _WARNINGS if noted or outcomes & {Outcome.SKIPPED, Outcome.GONE} else _EQUAL


def _make_row(item: Item) -> tuple[object, ...]:
    return item.kind, item.id, item.name, item.outcome.value, _describe(item)


def _describe(item: Item) -> str:
    return "; ".join([*([item.reason] if item.reason else []), *(
        f"{place}: {_spell(ours)} here, {_spell(theirs)} there"
        for name, pair in item.differences.items()
        for place, ours, theirs in _list_differences(name, *pair))])


def _list_differences(
    name: str, ours: object, theirs: object
) -> Iterator[tuple[str, object, object]]:
    """Yield what differs in a field, down to the parts of a field that has some."""
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        yield name, ours, theirs
        return
    for key in dict.fromkeys((*ours, *theirs)):
        if ours.get(key) != theirs.get(key):
            yield from _list_differences(f"{name}.{key}", ours.get(key), theirs.get(key))


def _spell(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
