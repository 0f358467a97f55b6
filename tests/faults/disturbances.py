"""What may go wrong with the processes of the product."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from tests.server_programs import Program, find

_WRONG_CLOCK = pathlib.Path(__file__).with_name("wrong_clock.c")


@dataclasses.dataclass(frozen=True)
class Disturbance:
    """Something that goes wrong for some time.

    :ivar name: in a report.
    :ivar during: is entered when it begins, and left when it ends.
    :ivar seconds: how long it lasts.
    :ivar stale_apis: the numbers of the API processes whose database may say meanwhile what was
        before a write that was acknowledged elsewhere.
    """

    name: str
    during: Callable[[], AbstractContextManager[object]]
    seconds: float
    stale_apis: Sequence[int] = ()


@contextlib.contextmanager
def killed(program: Program) -> Iterator[None]:
    """Kill a process; start it again in the end."""
    program.kill()
    yield
    program.begin()


@contextlib.contextmanager
def halted(program: Program) -> Iterator[None]:
    """Stop a process; let it go on in the end, where it was."""
    program.send(signal.SIGSTOP)
    try:
        yield
    finally:
        program.send(signal.SIGCONT)


@contextlib.contextmanager
def all_killed(programs: Sequence[Program]) -> Iterator[None]:
    """Kill processes at one moment; start them again in the end."""
    for program in programs:
        program.send(signal.SIGKILL)
    for program in programs:
        program.join()
    yield
    for program in programs:
        program.begin()


@contextlib.contextmanager
def clock_wrong(program: Program, seconds: int) -> Iterator[None]:
    """Run a process whose clock is wrong by some seconds."""
    with tempfile.TemporaryDirectory(prefix="placement-clock-") as folder:
        library = f"{folder}/wrong_clock.so"
        subprocess.run([find("gcc", "gcc"), "-shared", "-fPIC", "-o", library, _WRONG_CLOCK,
                        "-ldl"], check=True)
        program.stop()
        program.begin(environment={
            "LD_PRELOAD": library, "WRONG_CLOCK_SECONDS": str(seconds)})
        program.wait()
        yield
        program.stop()
        program.begin()


def list_for_processes(
    apis: Sequence[Program], managers: Sequence[Program], *, has_server: bool
) -> list[Disturbance]:
    """Return what may happen to API processes and managers.

    :param has_server: whether the database has a clock of its own, and bounds what a stopped
        process keeps from others.
    """
    possible = [
        *(Disturbance(f"API process {number} is killed", lambda each=each: killed(each), 1)
          for number, each in enumerate(apis)),
        *(Disturbance(f"manager {number} is killed", lambda each=each: killed(each), 1)
          for number, each in enumerate(managers)),
        Disturbance("everything is killed", lambda: all_killed([*apis, *managers]), 1),
    ]
    if has_server:
        possible += [
            *(Disturbance(f"the clock of API process 0 is wrong by {seconds} s",
                          lambda seconds=seconds: clock_wrong(apis[0], seconds), 4)
              for seconds in (3600, -3600)),
            *(Disturbance(f"API process {number} is stopped", lambda each=each: halted(each), 8)
              for number, each in enumerate(apis)),
            *(Disturbance(f"manager {number} is stopped", lambda each=each: halted(each), 12)
              for number, each in enumerate(managers)),
        ]
    return possible
