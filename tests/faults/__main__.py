"""``make test-faults``: play on one kind of cluster after the other; say what came of it."""

from __future__ import annotations

import argparse
import pathlib
import random
import signal
import sys
import tempfile
from collections.abc import Sequence

from tests.faults.running import KINDS, run
from tests.server_programs import NotInstalledError


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if nothing was wrong, 1 if something was, 2 if a program is not installed."""
    options = _parser().parse_args(arguments)
    # Whoever ends it ends its servers, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    code = 0
    for kind in options.kind or KINDS:
        try:
            report = run(
                kind, options.seconds, options.seed, pathlib.Path(options.results),
                say=lambda text, kind=kind: print(f"  {kind}: {text}", flush=True))
        except NotInstalledError as error:
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
    add("--seed", type=int, default=random.randrange(10_000),
        help="of the order of things (default: another one each time)")
    add("--results", default=tempfile.mkdtemp(prefix="placement-faults-"),
        help="where reports and histories go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
