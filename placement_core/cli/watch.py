"""``placement-core watch``: what changes, as it changes."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shlex
import subprocess
import time
from collections.abc import Collection, Sequence

import orjson

from placement_core import errors
from placement_core.cli import base
from placement_core.context import Context
from placement_core.feed import reading, waiting
from placement_core.feed.kinds import KINDS
from placement_core.feed.records import Answer, Filters
from placement_core.feed.tokens import LONGEST, Token, decode, encode
from placement_core.feed.waiting import ChangeWatch
from placement_core.http.capacity_api import change_documents
from placement_core.http.capacity_api.change_documents import Document
from placement_core.safe_logging import printable

#: How many objects are read at a time.
_PAGE = 500
#: For how long one wait lasts; then the token is stored, which moves with hidden changes, too.
_WAIT_SECONDS = 30.0
#: The URL of the limits API in documents, which nobody has asked here.
_BASE = "/v3"


class Watch(base.Configured):
    """Print what changes, as it changes; Ctrl-C ends it.

    Each object comes in its present state, once for all changes since the last look. Without
    --all and --token-file, what changes from now on is printed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--kind", metavar="KIND", action="append", choices=list(KINDS),
            help=f"only this kind; may be repeated: {', '.join(KINDS)}")
        parser.add_argument(
            "--project", metavar="ID", help="only what this project owns, or owned before")
        parser.add_argument(
            "--all", action="store_true", help="begin with everything that there is")
        parser.add_argument(
            "--token-file", metavar="FILE", type=pathlib.Path,
            help="go on where the last call with this file ended; a new file begins as the other "
            "options say")
        parser.add_argument(
            "--exec", metavar="COMMAND", dest="command", type=_parse_command,
            help="run this command for each change, with the change as JSON on its input. If it "
            "fails, so does the watch; the next one with the same --token-file repeats the change")
        parser.add_argument(
            "--once", action="store_true", help="end as soon as there is nothing more")
        parser.add_argument("-f", "--format", dest="formatter", choices=(base.TABLE, "json"),
                            default=base.TABLE, help="json: a document in each line")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the command."""
        filters = Filters(_choose_kinds(parsed_args), parsed_args.project)
        file = parsed_args.token_file
        with self.parts(parsed_args) as (parts, ctx):
            watch = ChangeWatch(parts.context, most=1)
            token = _begin(ctx, file, everything=parsed_args.all)
            if file is not None and token is not None and not file.exists():
                # What changes before the first look has ended is not to be missed by the next.
                _store(file, token)
            try:
                while True:
                    answer = self._read(ctx, watch, token, filters, once=parsed_args.once)
                    if answer is None:
                        continue
                    self._handle(answer, parsed_args)
                    token = answer.token
                    if file is not None:
                        _store(file, token)
                    if parsed_args.once and not answer.more:
                        return
            except KeyboardInterrupt:
                return

    def _read(
        self, ctx: Context, watch: ChangeWatch, token: Token | None, filters: Filters, *,
        once: bool,
    ) -> Answer | None:
        """Return what follows a token; None: the database does not answer now."""
        try:
            return waiting.read(
                ctx, watch, token, filters, most=_PAGE,
                seconds=0 if once else _WAIT_SECONDS, idle=contextlib.nullcontext).answer
        except errors.Unavailable as error:
            if once:
                raise
            self.note(str(error))
            time.sleep(error.retry_after_seconds)
            return None

    def _handle(self, answer: Answer, parsed_args: argparse.Namespace) -> None:
        as_json = parsed_args.formatter == "json"
        documents = change_documents.render(
            answer, _BASE, with_documents=as_json or parsed_args.command is not None,
            with_hosts=True)["changes"]
        for document in documents:
            if parsed_args.command is not None:
                _run(parsed_args.command, document)
            elif as_json:
                self.say(orjson.dumps(document).decode())
            else:
                self.say(_describe(document))


def _parse_command(text: str) -> list[str]:
    words = shlex.split(text)
    if not words:
        raise argparse.ArgumentTypeError("expected a command")
    return words


def _choose_kinds(parsed_args: argparse.Namespace) -> Collection[str]:
    possible = [name for name, kind in KINDS.items() if kind.owned or not parsed_args.project]
    kinds = parsed_args.kind or possible
    for kind in kinds:
        if kind not in possible:
            raise base.Failed(f"--kind {kind}: nothing of this kind belongs to a project")
    return frozenset(kinds)


def _begin(ctx: Context, file: pathlib.Path | None, *, everything: bool) -> Token | None:
    """Return the token to begin with; None: with everything."""
    if file is not None and file.exists():
        with file.open(encoding="ascii", errors="replace") as stored:
            return decode(stored.read(LONGEST).strip())
    return None if everything else reading.read_now(ctx).token


def _store(file: pathlib.Path, token: Token) -> None:
    """Replace the file, which then has the old token or the new one."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(f"{encode(token)}\n", encoding="ascii")
    os.replace(new, file)


def _run(command: Sequence[str], document: Document) -> None:
    try:
        code = subprocess.run(  # noqa: S603  (the operator's own command)
            command, input=orjson.dumps(document), check=False).returncode
    except OSError as error:
        raise base.Failed(f"--exec {command[0]}: {error.strerror}") from error
    if code:
        raise base.Failed(
            f"--exec {command[0]}: failed ({code}) for {_describe(document)}")


def _describe(document: Document) -> str:
    """Return a line of printable characters: tenants choose the names of leases."""
    words = [document["kind"], document["id"], document["name"],
             document["project_id"] and f"project={document['project_id']}",
             "deleted" if document["deleted"] else None]
    return printable(" ".join(dict.fromkeys(str(word) for word in words if word)))
