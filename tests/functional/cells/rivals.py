"""Race tests of instances from other processes: what they run."""

from placement_core.cells import instances
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from tests.functional.placement.races.processes import say, wait_for_start
from tests.http import base


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
