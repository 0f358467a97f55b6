"""``placement-core migrate shadow`` and ``migrate switch``: real traffic, then the other side.

The proxy needs aiohttp (``placement-core[shadow]``); what tells it what to do does not.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import pathlib
import urllib.parse
from collections.abc import Mapping, Sequence

from placement_core import errors, services as service_parts
from placement_core.cli import base, migration_status
from placement_core.cli.migration_status import add_state
from placement_core.placement import provider_copies
from placement_core.shadow import control, state
from placement_core.shadow.modes import Side
from placement_core.shadow.reports import Report

_DEFAULT_OURS = "http://127.0.0.1:8778"
_DEFAULT_PERCENT = 10.0
_DEFAULT_WAITING = 10_000
_DEFAULT_HOLD_SECONDS = 10.0


class _Counts(base.FormattableColumn):
    """Counts by name; machines read an object."""

    def human_readable(self) -> str:
        """Return a line for each."""
        return "\n".join(f"{count} {name}" for name, count in self._value.items()) or "0"

    def machine_readable(self) -> dict[str, object]:
        """Return them."""
        return {str(name): count for name, count in self._value.items()}


class _Texts(base.FormattableColumn):
    """Texts by name; machines read an object."""

    def human_readable(self) -> str:
        """Return a line for each."""
        return "\n".join(f"{name}: {text}" for name, text in self._value.items()) or "none"

    def machine_readable(self) -> dict[str, str]:
        """Return them."""
        return dict(self._value)


class ServeShadow(base.Command):
    """Stand before the old Placement: it answers, and ours is written second and compared.

    What clients are answered is what upstream answers. A write that it acknowledged is applied to
    ours afterwards; a share of the reads is asked of both. "migrate shadow report" says how it
    went, "migrate switch" lets ours answer. Both sides are to hold the same at the start.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--upstream", metavar="URL", required=True, type=_parse_url,
            help="where the old Placement answers")
        parser.add_argument(
            "--keystone", metavar="URL", type=_parse_url,
            help="where Keystone answers, without /v3: what begins with /v3 goes there, and "
            "limits and registered limits are applied to ours and compared; by default they are "
            "left alone")
        parser.add_argument(
            "--ours", metavar="URL", default=_DEFAULT_OURS, type=_parse_url,
            help=f"where this service answers (default: {_DEFAULT_OURS})")
        parser.add_argument(
            "--bind", metavar="HOST:PORT", required=True, type=_parse_address,
            help="where clients reach the proxy")
        add_state(parser)
        _add_control(parser)
        parser.add_argument(
            "--compare-reads", metavar="PERCENT", default=_DEFAULT_PERCENT, type=_parse_percent,
            help="how many of 100 reads are asked of both sides and compared (default: "
            f"{_DEFAULT_PERCENT:g})")
        parser.add_argument(
            "--max-waiting", metavar="N", default=_DEFAULT_WAITING, type=base.parse_count,
            help="how many writes may wait for the second side (default: "
            f"{_DEFAULT_WAITING}); what further ones touch is read again later")
        parser.add_argument(
            "--token-file", metavar="PATH", type=pathlib.Path,
            help="a file with an administrator's token, to read objects again with; by default "
            "the token of the last write that passed is used")
        parser.add_argument(
            "--set-generations", action="store_true",
            help="set generations of our resource providers in the database where they are ahead "
            "of upstream's, which HTTP cannot; the configuration names the database, which has to "
            "be that of --ours; by default such providers stay unresolved")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        try:
            from placement_core.shadow import server
        except ModuleNotFoundError as error:
            raise base.Failed(
                f"The proxy needs {error.name}: pip install placement-core[shadow]") from error
        if parsed_args.token_file and not parsed_args.token_file.is_file():
            raise base.Failed(f"--token-file {parsed_args.token_file}: no such file")
        host, port = parsed_args.bind
        with contextlib.ExitStack() as stack:
            set_generation = None
            if parsed_args.set_generations:
                parts, _ = stack.enter_context(self.parts(parsed_args))
                set_generation = functools.partial(_set_generation, parts)
            server.run(server.Settings(
                host=host, port=port,
                urls={Side.UPSTREAM: parsed_args.upstream, Side.OURS: parsed_args.ours},
                state=parsed_args.state, control=_find_control(parsed_args),
                compare_percent=parsed_args.compare_reads, most_waiting=parsed_args.max_waiting,
                token_file=parsed_args.token_file, keystone_url=parsed_args.keystone,
                set_generation=set_generation), self.say)
        return 0


class ReportShadow(base.Shower):
    """Say how a shadow went: what was compared, what differed and why, how long each side took.

    Reads the state of a proxy, whether it runs or not.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_state(parser)
        _add_control(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[object]]:
        """Run the command."""
        with contextlib.suppress(errors.Unavailable):
            control.call(_find_control(parsed_args), "flush")
        fields = _list_fields(state.read_report(parsed_args.state))
        return tuple(fields), tuple(fields.values())


class _Change(base.Command):
    """A command for the proxy that runs."""

    word: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_state(parser)
        _add_control(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        control.call(_find_control(parsed_args), self.word)
        self.say(state.read_mode(parsed_args.state).describe())
        return 0


class _Flip(_Change):
    """A command that changes which side answers."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--dry-run", action="store_true", help="do everything but the change itself")
        parser.add_argument(
            "--hold", metavar="SECONDS", default=_DEFAULT_HOLD_SECONDS, type=_parse_seconds,
            help="for how long requests may wait at most (default: "
            f"{_DEFAULT_HOLD_SECONDS:g}); if it is not done by then, nothing has happened")
        parser.add_argument(
            "--max-differences", metavar="N", default=0, type=_parse_natural,
            help="with how many objects that are not the same it is done all the same "
            "(default: 0)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        options = {"hold": parsed_args.hold, "max_differences": parsed_args.max_differences,
                   "dry_run": parsed_args.dry_run}
        with self.progress() as bars:
            done = control.call(
                _find_control(parsed_args), self.word, options, bars.report)
        self.say(f"Requests waited for {done['seconds']:.2f} s; {done['compared']} objects were "
                 f"compared meanwhile, {len(done['differing'])} differ.")
        for name in done["differing"]:
            self.say(f"  {name}")
        if parsed_args.dry_run:
            self.say("Nothing has changed (--dry-run).")
        self.say(state.read_mode(parsed_args.state).describe())
        return 0


class SwitchMigration(_Flip):
    """Let ours answer, and write upstream second; or let nothing have happened.

    Compares all providers with what they have and what is held of them, and all custom traits and
    resource classes, while requests go on. Then new requests wait, what is under way comes to its
    end, what differed or was written meanwhile is compared again, and ours answers. If anything
    fails, upstream answers as before. What "migrate diff" found last of other services is said
    beforehand, if they are not equal.
    """

    word = "switch"

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        sources, problem = migration_status.try_to_read_sources(self, parsed_args)
        if problem:
            self.note(problem)
        if doubts := migration_status.describe_doubts(sources):
            self.note(f"The switch does not compare these ({doubts}); \"migrate diff\" does.")
        return super().take_action(parsed_args)


class ReverseMigration(_Flip):
    """Let upstream answer again, and write ours second: the switch, backwards."""

    word = "reverse"


class CompleteMigration(_Change):
    """Write upstream no more: ours answers, and there is no way back."""

    word = "complete"


class CancelMigration(_Change):
    """Leave the shadow: upstream answers, and ours is written no more."""

    word = "cancel"


def _set_generation(
    parts: service_parts.Services, uuid: str, seen: int, generation: int
) -> None:
    provider_copies.set_generation(parts.context(), uuid, generation, seen=seen)


def _list_fields(report: Report) -> Mapping[str, object]:
    latencies = {
        f"{side}_p{percentile}_ms": milliseconds for side in Side
        for percentile, milliseconds in report.latencies[side].items()}
    return {
        "mode": report.mode.value, "requests": report.requests, "writes": report.writes,
        "applied": report.applied, "waiting": report.waiting, "equal": report.equal,
        "not_compared": report.overlapped, "different": _Counts(report.different),
        "known_noise": _Counts(report.noise), "reread": report.reread,
        "unresolved": _Texts(report.unresolved),
        **{f"{side}_errors": report.errors[side] for side in Side}, **latencies,
        "examples": _Texts({
            example.cause: f"{example.method} {example.target}: upstream {example.upstream}; "
                           f"ours {example.ours}" for example in report.examples})}


def _add_control(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--control", metavar="PATH", type=pathlib.Path,
        help="the Unix socket on which the proxy takes commands (default: the path of the "
        "state, and .control)")


def _find_control(parsed_args: argparse.Namespace) -> pathlib.Path:
    given: pathlib.Path | None = parsed_args.control
    return given or control.find_socket(parsed_args.state)


def _parse_url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a URL such as http://controller:8778/placement")
    return text


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 10.0.0.1:8778")
    return host, int(port)


def _parse_percent(text: str) -> float:
    return _parse_number(text, 0, 100, "a number from 0 to 100")


def _parse_seconds(text: str) -> float:
    return _parse_number(text, 0.1, 3600, "seconds, from 0.1 to 3600")


def _parse_number(text: str, least: float, most: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
    return number


def _parse_natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 on")
    return int(text)
