"""What the commands have in common."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

from osc_lib.command import command

from capacityclient.client import Client

Rows = tuple[tuple[str, ...], Iterable[tuple[object, ...]]]

TABLE = "table"
UNLIMITED = "unlimited"
#: How wide a bar is, in characters.
_BAR = 20
_OPENING, _CLOSING = "[{(", "]})"


class Command(command.Command):
    """A command that asks the capacity API."""

    def say(self, line: str) -> None:
        """Print a sentence beside the answer, which programs may read."""
        print(line, file=self.app.stderr, flush=True)

    @property
    def capacity(self) -> Client:
        """Return the client of the capacity API."""
        # The client makes an attribute of each plugin.
        manager: Any = self.app.client_manager
        client: Client = manager.capacity
        return client


class Lister(Command, command.Lister):
    """Prints rows; in place of an empty table it says what is empty.

    :ivar empty: the sentence for that.
    :ivar exit_code: what the command ends with, if the service answers.
    """

    empty = ""
    exit_code = 0

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        return super().run(parsed_args) or self.exit_code

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Any, data: Any
    ) -> Any:
        """Print the rows, or why there are none."""
        rows = list(data)
        if not rows and self.empty and parsed_args.formatter == TABLE:
            print(self.empty, file=self.app.stdout)
            return 0
        return super().produce_output(parsed_args, column_names, rows)


def format_amount(amount: int | None) -> str | int | None:
    """Return an amount as people read it: -1 is no limit."""
    return UNLIMITED if amount == -1 else amount


def draw_bar(part: int, whole: int) -> str:
    """Draw a part of something; full only if it is all of it, empty only if it is nothing."""
    filled = min(-(-_BAR * part // max(whole, 1)), _BAR - (part < whole))
    return "#" * filled + "." * (_BAR - filled)


def parse_reservation(text: str) -> dict[str, object]:
    """Parse a reservation: JSON, or ``name=value,name=value`` as Blazar's client writes it.

    Requirements are values with commas of their own: ``[">=", "$vcpus", "4"]``.
    """
    if text.startswith("{"):
        try:
            document = json.loads(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from None
        if isinstance(document, dict):
            return document
    fields: dict[str, object] = {}
    for item in _split(text):
        name, equals, value = item.partition("=")
        if not (name and equals) or name in fields:
            raise argparse.ArgumentTypeError(
                f"{item!r}: expected name=value, such as "
                "resource_type=virtual:instance,vcpus=4,memory_mb=4096,disk_gb=10,amount=2")
        fields[name] = _parse_value(value)
    return fields


def _split(text: str) -> Iterator[str]:
    """Split at the commas that are neither in brackets nor in double quotes."""
    start = depth = 0
    is_quoted = False
    for position, character in enumerate(text):
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (character in _OPENING) - (character in _CLOSING)
            if character == "," and depth <= 0:
                yield text[start:position]
                start = position + 1
    yield text[start:]


def _parse_value(text: str) -> object:
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    return int(text) if text.isascii() and text.isdecimal() else text
