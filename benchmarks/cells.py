"""A count over cells, each with a database of its own that is some way off."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from benchmarks import databases, datasets, servers
from placement_core import services
from placement_core.cells import cell_tables, engines, mappings
from placement_core.conf import loading
from placement_core.plugin_api.counting import INSTANCES
from placement_plugins.counting.legacy_cell import LegacyCellCounting

#: How much farther than the one before a cell is; the first one is so far.
_FARTHER_SECONDS = 0.005
_PROJECT, _USER = "bench", "bench-user"
#: Of each cell: instances of the project that is counted, and of others.
_COUNTED, _OTHERS = 100, 400
_PORTS = {"postgresql": 5432, "mysql": 3306}
_SECONDS_TO_END = 10


class Cells:
    """Databases of cells, the last one the farthest.

    What a cell answers comes through a port that holds it back. SQLite has no ports:
    there all cells are near.
    """

    def __init__(self, server: databases.Server, folder: pathlib.Path, count: int) -> None:
        """Make nothing yet.

        :param folder: for configuration files.
        """
        self._server = server
        self._folder = folder
        self._names = [f"bench_ours_cell_{number}" for number in range(count)]

    @contextlib.contextmanager
    def counting(self, ours: servers.Ours) -> Iterator[dict[str, Counter]]:
        """Make the databases; yield who counts.

        :returns: {"all": over all cells, "farthest": over that one alone, and both
            "…_near", without the ways in between}.
        """
        with contextlib.ExitStack() as stack:
            for name in self._names:
                self._make(name)
                stack.callback(self._server.drop, name)
            near = [self._server.url(name) for name in self._names]
            far = stack.enter_context(_far(near)) if near[0].host else near
            stack.callback(engines.SHARED.dispose)
            yield {
                which: stack.enter_context(self._counter(ours, which, urls))
                for which, urls in (
                    ("all", far), ("farthest", far[-1:]),
                    ("all_near", near), ("farthest_near", near[-1:]))}

    def _make(self, name: str) -> None:
        """Make the database of a cell, with instances in it."""
        self._server.make(name)
        instances = cell_tables.instances
        with self._server.connect(name) as connection:
            cell_tables.metadata.create_all(connection)
            connection.execute(sa.insert(instances), [
                {"uuid": datasets.uid(name, number), "user_id": _USER,
                 "project_id": _PROJECT if number < _COUNTED else f"other-{number % 10}",
                 "vm_state": "active", "memory_mb": 2048, "vcpus": 2, "hidden": False,
                 "deleted": 0}
                for number in range(_COUNTED + _OTHERS)])
        self._server.settle(name)

    @contextlib.contextmanager
    def _counter(
        self, ours: servers.Ours, which: str, cells: Sequence[sa.URL]
    ) -> Iterator[Counter]:
        name, folder = f"bench_ours_cells_{which}", self._folder / f"cells-{which}"
        self._server.make(name)
        try:
            ours.sync(name, self._server, folder)
            counter = Counter(folder / "placement.conf", cells)
            try:
                yield counter
            finally:
                counter.close()
        finally:
            self._server.drop(name)


class Counter:
    """Counts in this process what a project uses, and what one of its users does."""

    def __init__(self, placement_conf: pathlib.Path, cells: Sequence[sa.URL]) -> None:
        """Map the cells.

        :param placement_conf: names a database that has no cells yet.
        """
        conf = loading.load(config_files=[str(placement_conf)], config_dirs=[])
        conf.set_override("directories", [
            str(pathlib.Path(url.database or "").parent) for url in cells
            if url.get_backend_name() == "sqlite"], "cells")
        self._parts = services.build(conf)
        self._counting = LegacyCellCounting(conf)
        self._instances = _COUNTED * len(cells)
        for number, url in enumerate(cells):
            mappings.create(
                self._parts.context(), self._parts.cells, name=f"cell-{number}",
                database_connection=url.render_as_string(hide_password=False))

    def close(self) -> None:
        """Close what is connected."""
        self._parts.database.dispose()

    def timed(self) -> float:
        """Count; return the milliseconds.

        :raises RuntimeError: the count is wrong.
        """
        started = time.perf_counter()
        found = self._counting.count(
            self._parts.context(), [_PROJECT], units=(INSTANCES, "VCPU", "MEMORY_MB"),
            user_id=_USER)
        taken = (time.perf_counter() - started) * 1000
        counted = found.projects.get(_PROJECT, {}).get(INSTANCES)
        if counted != self._instances or found.user != found.projects[_PROJECT]:
            raise RuntimeError(f"{counted} of {self._instances} instances: {found}")
        return taken


@contextlib.contextmanager
def _far(urls: Sequence[sa.URL]) -> Iterator[list[sa.URL]]:
    """Yield URLs of the same databases, each behind a longer way than the one before."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    ways = [_Way(url, _FARTHER_SECONDS * number) for number, url in enumerate(urls, 1)]
    try:
        yield [
            url.set(host="127.0.0.1", port=asyncio.run_coroutine_threadsafe(
                way.open(), loop).result())
            for url, way in zip(urls, ways, strict=True)]
    finally:
        asyncio.run_coroutine_threadsafe(_end(ways), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(ways: Sequence[_Way]) -> None:
    """Listen no more, and see the last connections end, which their users have closed."""
    for way in ways:
        way.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*connections), _SECONDS_TO_END)


class _Way:
    """A port behind which a server's answers arrive later."""

    def __init__(self, url: sa.URL, seconds: float) -> None:
        self._host = url.host
        self._port = url.port or _PORTS[url.get_backend_name()]
        self._seconds = seconds

    async def open(self) -> int:
        """Begin to listen; return the port."""
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    async def _connected(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        server, to_server = await asyncio.open_connection(self._host, self._port)
        await asyncio.gather(
            _passed_on(client, to_server, 0), _passed_on(server, to_client, self._seconds))


async def _passed_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float
) -> None:
    """Pass on what comes, until nothing does any more."""
    try:
        while piece := await source.read(65536):
            await asyncio.sleep(seconds)
            target.write(piece)
    except ConnectionError:
        pass  # whoever hung up wants nothing more
    finally:
        target.close()
