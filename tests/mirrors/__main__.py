"""``python -m tests.mirrors``: many runs on each database that the environment names."""

from __future__ import annotations

import argparse
import pathlib
import random
import signal
import sys
import tempfile
from collections.abc import Sequence

from tests import databases
from tests.mirrors.play import play

_RUNS, _SECONDS = 50, 6.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every mirror was what the database was, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mirrors", description=__doc__)
    add = parser.add_argument
    add("--kind", action="append", choices=databases.KINDS, help="default: every database")
    add("--runs", type=int, default=_RUNS, metavar="N", help=f"default: {_RUNS}")
    add("--seconds", type=float, default=_SECONDS, help=f"of each run (default: {_SECONDS:g})")
    add("--seed", type=int, default=random.randrange(10_000),
        help="of what happens (default: another one each time)")
    add("--results", default=tempfile.mkdtemp(prefix="placement-mirrors-"),
        help="where the logs of processes go if something was wrong")
    options = parser.parse_args(arguments)
    # Whoever ends it ends its processes, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    for kind in options.kind or databases.KINDS:
        print(f"{kind}, seed {options.seed}", flush=True)
        reports = play(kind, options.runs, seconds=options.seconds, seed=options.seed,
                       results=pathlib.Path(options.results),
                       say=lambda text: print(text, flush=True))
        for sentence in reports[-1].wrong:
            print(f"  WRONG: {sentence}")
        if reports[-1].wrong:
            print(f"  The logs are in {options.results}.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
