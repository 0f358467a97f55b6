"""``openstack capacity watch``: what changes, as it changes."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osc_lib import exceptions

from capacityclient.client import Poll, Refused, Unavailable
from capacityclient.osc.base import TABLE, Command

_PATH = "/changes"
#: In place of a token: what changes from now on.
_NOW = "now"
#: For how long the service waits for the next change, at most.
_WAIT_SECONDS = 30
_FORBIDDEN = 403

Change = Mapping[str, Any]


class WatchChanges(Command):
    """Print what changes, as it changes; Ctrl-C ends it.

    Each object comes in its present state, once for all changes since the last look. Without
    --all, --after and --token-file, what changes from now on is printed. Who may not watch all
    projects watches that of the token.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--kind", metavar="<kind>", action="append",
            help="only this kind, such as provider, consumer or lease; repeatable")
        parser.add_argument("--project", metavar="<project-id>",
                            help="only what this project owns, or owned before")
        begin = parser.add_mutually_exclusive_group()
        begin.add_argument(
            "--all", action="store_true", help="begin with everything that there is")
        begin.add_argument(
            "--after", metavar="<token>", default=_NOW,
            help="begin after this token, the next of an answer of the API (default: now)")
        parser.add_argument(
            "--token-file", metavar="<file>", type=pathlib.Path,
            help="go on where the last call with this file ended; a new file begins as the other "
            "options say")
        parser.add_argument(
            "--exec", metavar="<command>", dest="command", type=_parse_command,
            help="run this command for each change, with the change as JSON on its input. If it "
            "fails, so does the watch; the next one with the same --token-file repeats the change")
        parser.add_argument(
            "--once", action="store_true", help="end as soon as there is nothing more")
        parser.add_argument("-f", "--format", dest="formatter", choices=(TABLE, "json"),
                            default=TABLE, help="json: a document in each line")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the changes, or run a command for each."""
        try:
            for answer in self._follow(_make_query(parsed_args), once=parsed_args.once):
                for change in answer["changes"]:
                    self._handle(change, parsed_args)
                if parsed_args.token_file is not None:
                    _store(parsed_args.token_file, answer["next"])
        except KeyboardInterrupt:
            return

    def _follow(
        self, query: Mapping[str, object], *, once: bool
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the answers. The first one comes at once, so that its token is not lost."""
        query, poll = self._begin(query)
        wait_seconds = 0 if once else _WAIT_SECONDS
        while True:
            yield poll.document
            if once and not poll.document["more"]:
                return
            time.sleep(poll.retry_after_seconds)
            query = {**query, "after": poll.document["next"]}
            poll = self._read(query, wait_seconds)

    def _begin(self, query: Mapping[str, object]) -> tuple[Mapping[str, object], Poll]:
        """Return the first answer, and the query that the caller may ask."""
        try:
            return query, self.capacity.poll(_PATH, query, wait_seconds=0)
        except Refused as refusal:
            project_id = self.capacity.project_id
            if refusal.status != _FORBIDDEN or query["project_id"] or project_id is None:
                raise
        query = {**query, "project_id": project_id}
        poll = self.capacity.poll(_PATH, query, wait_seconds=0)
        self.say(f"you may not watch all projects: this is what project {project_id} owns")
        return query, poll

    def _read(self, query: Mapping[str, object], wait_seconds: int) -> Poll:
        """Return the next answer, if need be from a service that was away."""
        while True:
            try:
                return self.capacity.poll(_PATH, query, wait_seconds=wait_seconds)
            except Unavailable as error:
                if not wait_seconds:
                    raise
                self.say(str(error))
                time.sleep(error.retry_after_seconds)

    def _handle(self, change: Change, parsed_args: argparse.Namespace) -> None:
        if parsed_args.command is not None:
            _run(parsed_args.command, change)
            return
        line = json.dumps(change) if parsed_args.formatter == "json" else _describe(change)
        print(line, file=self.app.stdout, flush=True)


def _make_query(parsed_args: argparse.Namespace) -> dict[str, object]:
    with_documents = parsed_args.formatter == "json" or parsed_args.command is not None
    return {
        "kinds": ",".join(parsed_args.kind) if parsed_args.kind else None,
        "project_id": parsed_args.project,
        "include": "document" if with_documents else None,
        "after": _choose_token(parsed_args),
    }


def _choose_token(parsed_args: argparse.Namespace) -> str | None:
    """Return the token to begin with; None: with everything."""
    file = parsed_args.token_file
    if file is not None and file.exists():
        return str(file.read_text(encoding="ascii", errors="replace").strip())
    return None if parsed_args.all else parsed_args.after


def _store(file: pathlib.Path, token: str) -> None:
    """Replace the file, which then has the old token or the new one."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(f"{token}\n", encoding="ascii")
    os.replace(new, file)


def _parse_command(text: str) -> list[str]:
    words = shlex.split(text)
    if not words:
        raise argparse.ArgumentTypeError("expected a command")
    return words


def _run(command: Sequence[str], change: Change) -> None:
    try:
        code = subprocess.run(  # noqa: S603  (the user's own command)
            command, input=json.dumps(change).encode(), check=False).returncode
    except OSError as error:
        raise exceptions.CommandError(f"--exec {command[0]}: {error.strerror}") from error
    if code:
        raise exceptions.CommandError(
            f"--exec {command[0]}: failed ({code}) for {_describe(change)}")


def _describe(change: Change) -> str:
    """Return a line of printable characters: people choose the names."""
    words = [change["kind"], change["id"], change["name"],
             change["project_id"] and f"project={change['project_id']}",
             "deleted" if change["deleted"] else None]
    return _escape(" ".join(dict.fromkeys(word for word in words if word)))


def _escape(text: str) -> str:
    return "".join(
        character if character.isprintable() else
        character.encode("unicode_escape").decode("ascii") for character in text)
