"""What ``placement-core migrate`` takes over, and where it goes here."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from placement_core import services as service_parts
from placement_core.context import Context
from placement_core.masking import mask_url
from placement_core.placement import inventories
from placement_core.takeover import (
    blazar,
    blazar_tables,
    blazar_targets,
    cell_targets,
    comparison_results,
    copying,
    keystone,
    nova_cells,
    nova_quotas,
    placement,
    placement_targets,
    records,
    sources,
    targets,
)
from placement_core.takeover.errors import NowhereToCopy, SameOrigin
from placement_core.takeover.records import Contents, Item, Record, Surroundings
from placement_core.takeover.sources import Source
from placement_core.takeover.targets import SpoolTarget, Target

_LIMIT_KINDS = frozenset({records.REGISTERED_LIMIT, records.LIMIT, records.USER_LIMIT})


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """What is read.

    :ivar service: the name of the service that has it.
    :ivar url: of its database.
    :ivar conf: the path of its configuration, if it is given.
    :ivar label: tells it from others of the same service, if it is given.
    """

    service: str
    url: str
    conf: str | None = None
    label: str | None = None


def _make_keystone(_address: Address, _parts: service_parts.Services) -> Source:
    return Source("keystone", keystone.KINDS, keystone.SCHEMA, keystone.read)


def _make_nova_api(address: Address, _parts: service_parts.Services) -> Source:
    read_quotas = functools.partial(
        nova_quotas.read, defaults=nova_quotas.read_defaults(address.conf))
    return Source(
        "nova-api", nova_quotas.KINDS + nova_cells.KINDS, nova_quotas.SCHEMA,
        lambda *arguments: read_quotas(*arguments) + nova_cells.read(*arguments),
        looks_around=True)


def _make_blazar(_address: Address, _parts: service_parts.Services) -> Source:
    return Source(
        blazar_tables.SOURCE, blazar.KINDS, blazar_tables.SCHEMA, blazar.read, looks_around=True)


def _make_placement(address: Address, parts: service_parts.Services) -> Source:
    return Source(
        "placement", placement.KINDS, placement.SCHEMA,
        functools.partial(placement.read, incomplete=parts.owners.incomplete),
        label=address.label or sources.make_label(address.url), own_kinds=placement.OWN_KINDS)


#: What can be taken over, by the name of the service that has it: makes the source.
_SOURCES: Mapping[str, Callable[[Address, service_parts.Services], Source]] = {
    "keystone": _make_keystone, "nova-api": _make_nova_api, "placement": _make_placement,
    blazar_tables.SOURCE: _make_blazar}
#: Of which there may be several.
_LABELLED = frozenset({"placement"})


@dataclasses.dataclass(frozen=True, slots=True)
class Here:
    """Where records go.

    :ivar targets: in the order in which records are copied.
    :ivar spool_targets: likewise, of kinds that have very many; after all others.
    :ivar exit_stack: closes what was read, in the end.
    """

    parts: service_parts.Services
    ctx: Context
    targets: Sequence[Target]
    spool_targets: Sequence[SpoolTarget]
    exit_stack: contextlib.ExitStack

    def list_targets(self, source: Source) -> list[Target]:
        """Return where the records of a source go."""
        return [target for target in self.targets if target.kind in source.kinds]

    def list_sources(self, addresses: Sequence[Address]) -> list[Source]:
        """Return the sources of addresses.

        :raises SameOrigin: what was copied from two of them could not be told apart.
        """
        by_origin: dict[str, Source] = {}
        for address in addresses:
            source = _SOURCES[address.service](address, self.parts)
            if source.origin in by_origin:
                raise SameOrigin(source.origin, may_have_label=address.service in _LABELLED)
            by_origin[source.origin] = source
        return list(by_origin.values())

    def require_places(self, addresses: Sequence[Address]) -> None:
        """Refuse sources in other places than those with which ours was compared last.

        :raises OtherPlace: one is.
        """
        comparison_results.require_places(self.ctx, {
            source.origin: mask_url(address.url) for source, address in zip(
                self.list_sources(addresses), addresses, strict=True)})

    def read(
        self, addresses: Sequence[Address], report: copying.Report
    ) -> Iterator[tuple[Source, Contents]]:
        """Read sources one after the other, each as it is to be beside those before it.

        :param report: is told how many of them are read.
        :raises NowhereToCopy: another service is in charge of limits that a source has.
        :raises SameOrigin: as ``list_sources``.
        """
        earlier: list[Record] = []
        for number, (source, address) in enumerate(
                zip(self.list_sources(addresses), addresses, strict=True)):
            report("sources read", number, len(addresses))
            if _LIMIT_KINDS & set(source.kinds):
                _require_local(self.parts)
            contents = sources.read(source, address.url, self._look_around(source, earlier))
            for spool in contents.spools:
                self.exit_stack.callback(spool.close)
            report("sources read", number + 1, len(addresses))
            yield source, contents
            earlier += contents.records

    def check(self, addresses: Sequence[Address], report: copying.Report) -> list[Item]:
        """Return what a copy would make of each record of some sources."""
        items: list[Item] = []
        earlier: list[tuple[Source, Contents]] = []
        for source, contents in self.read(addresses, report):
            items += copying.check(
                self.ctx, source, contents, self.list_targets(source), self.spool_targets, earlier)
            earlier.append((source, contents))
        return items

    def _look_around(self, source: Source, earlier: Sequence[Record]) -> Surroundings:
        """Return what is here, and what sources have that were read earlier."""
        dialect = self.ctx.database.dialect
        if not source.looks_around:
            return Surroundings(None, None, (), dialect)
        options, catalog = self.parts.conf.quota, self.parts.catalog
        service_ids = {service.id for service in catalog.services(
            self.ctx, service_type=options.service_type)}
        service_ids |= {record.id for record in earlier if record.kind == records.SERVICE
                        and record.fields["type"] == options.service_type}
        project_ids = {project.id for project in catalog.projects(self.ctx)}
        project_ids |= {record.id for record in earlier if record.kind == records.PROJECT}
        providers = {} if records.HOST not in source.kinds else {
            **blazar_targets.read_providers(self.ctx),
            **blazar_targets.find_roots(
                {record.id: record.fields for record in earlier
                 if record.kind == records.PROVIDER})}
        return Surroundings(
            service_ids.pop() if len(service_ids) == 1 else None, options.region or None,
            project_ids, dialect, cores_name=nova_quotas.find_cores_name(options.resource_map),
            has_dedicated=inventories.has_class(self.ctx, "PCPU"),
            keeps_cells=cell_targets.keeps_cells(self.ctx, self.parts.cells),
            required_fields=cell_targets.list_required_fields(self.ctx, self.parts.cells),
            fills_templates=bool(self.parts.conf.cells.template_connection),
            providers=providers, reservation_plugins=self.parts.reservation_plugins)


@contextlib.contextmanager
def open_here(parts: service_parts.Services, ctx: Context) -> Iterator[Here]:
    """Return where records of any source go; what is read of sources is closed at the end."""
    with contextlib.ExitStack() as exit_stack:
        yield Here(
            parts, ctx,
            [*targets.list_targets(parts.catalog, parts.model),
             *cell_targets.list_targets(ctx, parts.cells),
             *placement_targets.list_targets(parts.owners),
             *blazar_targets.list_targets()],
            cell_targets.list_spool_targets(ctx, parts.cells), exit_stack)


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the option that names what is read."""
    parser.add_argument(
        "--from", dest="sources", metavar="SERVICE[@LABEL]=URL[,CONF]", action="append",
        required=True, type=_parse_address,
        help=f"a service and the URL of its database; services: {', '.join(_SOURCES)}; "
        "nova-api also takes the path of nova.conf, for its defaults: "
        "nova-api=URL,/etc/nova/nova.conf; placement may have a label, to tell two of them "
        "apart (by default the host and the name of its database): placement@east=URL; "
        "repeatable, in the order of the copy")


def _parse_address(text: str) -> Address:
    name, equals, rest = text.partition("=")
    service, at, label = name.partition("@")
    if not equals or service not in _SOURCES:
        raise argparse.ArgumentTypeError(
            f"expected SERVICE=URL, where SERVICE is one of {', '.join(_SOURCES)}")
    if at and (service not in _LABELLED or not 0 < len(label) <= sources.LONGEST_LABEL):
        raise argparse.ArgumentTypeError(
            f"{name}: expected {' or '.join(sorted(_LABELLED))} with a label of 1 to "
            f"{sources.LONGEST_LABEL} characters")
    url, comma, conf = rest.rpartition(",")
    if not (comma and conf.endswith(".conf")):
        url, conf = rest, ""
    return Address(service, url, conf or None, label or None)


def _require_local(parts: service_parts.Services) -> None:
    """Refuse to copy limits of which another service is in charge."""
    if not parts.limits.transactional:
        raise NowhereToCopy(
            "limits", "[limits] driver", parts.conf.limits.driver, "local")
