"""``make soak``: what has to hold whenever it happens, twenty times.

``python -m tests.soak [N]``: on PostgreSQL and MariaDB in turns, those that the environment
names (``databases``). On SQLite a process that is stopped in a transaction stops all.
"""

from __future__ import annotations

import sys
import time

from tests import databases
from tests.functional.reservations import managers

_TIMES = 20


def main(arguments: list[str]) -> int:
    """Play so many times; return the exit code."""
    times = int(arguments[0]) if arguments else _TIMES
    kinds = databases.KINDS[1:]
    if not kinds:
        print(f"name a server's database: {' or '.join(databases.VARIABLES.values())}")
        return 2
    for number in range(times):
        kind = kinds[number % len(kinds)]
        database, began = databases.database(kind), time.monotonic()
        try:
            managers.Storm(database).play()
        except AssertionError as error:
            print(f"{number + 1} of {times} on {kind}: {error}")
            return 1
        finally:
            database.dispose()
        print(f"{number + 1} of {times} on {kind}: every event had its effect once "
              f"({time.monotonic() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
