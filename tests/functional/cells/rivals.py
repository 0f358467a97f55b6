"""Race tests of instances from other processes: what they run.

``python -m tests.functional.cells.rivals JOB CONNECTION JSON`` does one job.
"""

import sys

from placement_core.cells import instances
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from tests.functional.placement.races import processes
from tests.functional.placement.races.processes import say, wait_for_start
from tests.http import base


class Process(processes.Process):
    """A job of this module in a process of its own."""

    module = __name__


def register(database, *, api_url, uuids):
    """Register the same instances as everybody else, at the same moment."""
    ctx = Context(database)
    cells = CellDatabases(base.configuration(
        database.settings.connection, {("api_database", "connection"): api_url}))
    wait_for_start()
    say({"new": [
        instances.register(ctx, cells, uuid=each, project_id="demo", user_id="alice",
                           cell="cell1")[1]
        for each in uuids]})


JOBS = {job.__name__: job for job in (register,)}

if __name__ == "__main__":
    processes.main(JOBS, *sys.argv[1:])
