"""``make test-faults``: play on one kind of cluster after the other; say what came of it."""

from __future__ import annotations

import argparse
import pathlib
import random
import signal
import sys
import tempfile
from collections.abc import Sequence

from tests.faults.play import Length, NothingHappensError
from tests.faults.running import KINDS, run
from tests.server_programs import NotInstalledError


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if nothing was wrong, 1 if something was, 2 if a kind could not be played."""
    options = _parser().parse_args(arguments)
    # Whoever ends it ends its servers, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    length = (Length(options.seconds) if options.rounds is None
              else Length(rounds=options.rounds))
    code = 0
    for kind in options.kind or KINDS:
        try:
            report = run(
                kind, length, options.seed, pathlib.Path(options.results), only=options.only,
                say=lambda text, kind=kind: print(f"  {kind}: {text}", flush=True))
        except (NotInstalledError, NothingHappensError) as error:
            print(f"{kind}: {error}")
            code = max(code, 2)
            continue
        print(report.write_text(), flush=True)
        code = max(code, int(bool(report.wrong)))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    add = parser.add_argument
    add("--kind", action="append", choices=list(KINDS), help="default: every kind")
    add("--seconds", type=float, default=60, help="for which things go wrong (default: 60)")
    add("--rounds", type=int, metavar="N",
        help="in place of --seconds: until all that happens to the database happened N times")
    add("--only", default="", metavar="PATTERN",
        help="of what happens to the database, let that happen whose name has PATTERN")
    add("--seed", type=int, default=random.randrange(10_000),
        help="of the order of things (default: another one each time)")
    add("--results", default=tempfile.mkdtemp(prefix="placement-faults-"),
        help="where reports and histories go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
