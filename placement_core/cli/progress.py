"""How far a command is: bars on a terminal, a line now and then elsewhere; all on stderr.

Whatever takes long calls ``report(what, done, total)``.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Say = Callable[[str], None]

#: How often a line is written where there are no bars, the first time after so long, too.
_LINE_EVERY_SECONDS = 30.0


class Bars:
    """Bars below the lines that a command prints; they vanish at its end.

    :param say: prints a line of the command.
    """

    def __init__(self, terminal: TextIO, say: Say) -> None:
        self._say = say
        self._bars = _make_bars(terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None,
        _traceback: types.TracebackType | None,
    ) -> None:
        self._bars.stop()

    def report(self, what: str, done: int, total: int) -> None:
        """Show that so much of something is done."""
        total = max(done, total)
        if what in self._tasks:
            self._bars.update(self._tasks[what], completed=done, total=total)
        elif total:
            self._tasks[what] = self._bars.add_task(what, completed=done, total=total)

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self._bars.stop()
        self._say(line)
        self._bars.start()


class Lines:
    """A line now and then, for logs; nothing for what is done soon.

    :param note: writes a line beside the answer.
    :param say: prints a line of the command.
    """

    def __init__(self, note: Say, say: Say) -> None:
        self._note = note
        self.say = say

    def __enter__(self) -> Self:
        self._next_at = time.monotonic() + _LINE_EVERY_SECONDS
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def report(self, what: str, done: int, total: int) -> None:
        """Note how far it is, unless that was done a moment ago."""
        if time.monotonic() >= self._next_at:
            self._note(f"{what}: {done} of {max(done, total)}")
            self._next_at = time.monotonic() + _LINE_EVERY_SECONDS


def _make_bars(terminal: TextIO) -> Progress:
    # Importing it takes longer than most commands do.
    from rich import console, progress

    return progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(),
        progress.MofNCompleteColumn(), progress.TimeRemainingColumn(),
        console=console.Console(file=terminal), transient=True,
        redirect_stdout=False, redirect_stderr=False)
