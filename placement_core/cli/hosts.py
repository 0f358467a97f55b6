"""``placement-core hosts …``: the hosts that can be reserved."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from placement_core.cli import base
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.records import Host

#: How many hosts are read at a time.
_PAGE = 1000

_COLUMNS = ("id", "name", "vcpus", "memory_mb", "disk_gb", "reservable", "down_reason",
            "properties")
_FIELDS = ("id", "name", "provider_uuid", "vcpus", "memory_mb", "disk_gb", "hypervisor_type",
           "hypervisor_version", "service_name", "availability_zone", "reservable",
           "down_reason", "properties")

Table = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]
Fields = tuple[tuple[str, ...], tuple[object, ...]]


class RegisterHost(base.Shower):
    """Let a resource provider, or compute node, into the freepool. Prints the host.

    It must not carry allocations: from then on only reservations may.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="NAME", help="its name, or its uuid")
        parser.add_argument("--property", action="append", default=[], type=_parse_assignment,
                            metavar="KEY=VALUE", help="a property that reservations can ask "
                            "for (availability_zone is one); repeatable")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            return _make_fields(parts.pool_hosts.register(
                ctx, parsed_args.name, dict(parsed_args.property)))


class ListHosts(base.Lister):
    """List the hosts of the freepool: what can be promised of them."""

    empty = "The freepool has no hosts; `placement-core hosts register` adds one."

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run the command."""
        hosts: list[Host] = []
        with self.parts(parsed_args) as (_, ctx):
            while page := host_queries.page(
                    ctx, after=hosts[-1].id if hosts else None, limit=_PAGE):
                hosts += page
        return _COLUMNS, [_make_row(host, _COLUMNS) for host in hosts]


class ShowHost(base.Shower):
    """Show a host of the freepool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_host(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        with self.parts(parsed_args) as (_, ctx):
            return _make_fields(host_queries.find(ctx, parsed_args.host))


class SetHost(base.Shower):
    """Set properties of a host, and take it out of service or back. Prints the host.

    Leases that hold a host that is out of service get another one.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = _add_host(super().get_parser(prog_name))
        parser.add_argument("--property", action="append", default=[], type=_parse_assignment,
                            metavar="KEY=VALUE", help="set a property; repeatable")
        parser.add_argument("--unset", action="append", default=[], metavar="KEY",
                            help="remove a property; repeatable")
        service = parser.add_mutually_exclusive_group()
        service.add_argument("--out-of-service", metavar="REASON",
                             help="promise nothing of it any more, and why")
        service.add_argument("--in-service", action="store_true", help="put it back")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Run the command."""
        reason = parsed_args.out_of_service
        reservable = True if parsed_args.in_service else None if reason is None else False
        with self.parts(parsed_args) as (parts, ctx):
            host = host_queries.find(ctx, parsed_args.host)
            return _make_fields(parts.pool_hosts.change(
                ctx, str(host.id),
                {**dict.fromkeys(parsed_args.unset), **dict(parsed_args.property)},
                reservable=reservable, reason=reason))


class RemoveHost(base.Command):
    """Let a host out of the freepool.

    Refused while leases hold it now or later, or while it carries allocations.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        return _add_host(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        with self.parts(parsed_args) as (parts, ctx):
            host = host_queries.find(ctx, parsed_args.host)
            parts.pool_hosts.remove(ctx, str(host.id))
        self.say(f"{host.name} has left the freepool")
        return 0


def _add_host(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("host", metavar="HOST", help="the name or id of a host")
    return parser


def _parse_assignment(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise argparse.ArgumentTypeError("expected KEY=VALUE")
    return key, value


def _make_fields(host: Host) -> Fields:
    return _FIELDS, _make_row(host, _FIELDS)


def _make_row(host: Host, fields: Iterable[str]) -> tuple[object, ...]:
    return tuple(_Properties(host.capabilities) if field == "properties"
                 else getattr(host, field) for field in fields)


class _Properties(base.FormattableColumn):
    """Properties and their values."""

    def human_readable(self) -> str:
        """Return a line for each property."""
        return "\n".join(f"{name}={value}" for name, value in sorted(self._value.items()))

    def machine_readable(self) -> Mapping[str, str]:
        """Return {property: value}."""
        return dict(self._value)
