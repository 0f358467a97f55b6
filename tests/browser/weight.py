"""What the overview of a large cloud costs: ``python -m tests.browser.weight``."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator

import sqlalchemy as sa
from playwright import sync_api

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.http.dashboard import paths
from placement_core.placement import tables
from placement_core.testing import factories
from tests import databases, serving
from tests.browser import chromium

HOSTS = 10_000
_ROUNDS = 10
#: Of the service.
OPTIONS = {
    "OS_DASHBOARD__ENABLED": "true", "OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true"}
#: {resource class: total, allocation ratio}.
_INVENTORIES = {"VCPU": (64, 4.0), "MEMORY_MB": (262144, 1.0), "DISK_GB": (4000, 1.0)}
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Weight:
    """What a page costs.

    :ivar paint_ms: from the request to the first paint, the median of some visits.
    :ivar kilobytes: of the page with all its files, without compression.
    :ivar processor_ms: of the server for a visit after a change; ``unchanged_ms``: for a 304.
    """

    paint_ms: float
    kilobytes: float
    processor_ms: float
    unchanged_ms: float


def make_database() -> str:
    """Make a database with many hosts; return its URL."""
    connection = databases.settings("sqlite").connection
    engine = sa.create_engine(connection)
    with engine.begin() as session:
        ids = dict(session.execute(
            sa.select(tables.resource_classes.c["name", "id"])).all())
        session.execute(sa.insert(tables.resource_providers), [
            {"id": number, "uuid": str(uuid.uuid4()), "name": f"host{number:05}",
             "generation": 1, "root_provider_id": number} for number in range(1, HOSTS + 1)])
        session.execute(sa.insert(tables.inventories), list(_list_inventories(ids)))
    engine.dispose()
    return connection


def _list_inventories(ids: dict[str, int]) -> Iterator[dict[str, object]]:
    for number in range(1, HOSTS + 1):
        for name, (total, ratio) in _INVENTORIES.items():
            capacity = int(total * ratio)
            yield {
                "resource_provider_id": number, "resource_class_id": ids[name], "total": total,
                "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1,
                "allocation_ratio": ratio, "capacity": capacity,
                "used": capacity * (number * 7 % 101) // 100}


def measure(browser: sync_api.Browser, service: serving.Service, connection: str) -> Weight:
    """Measure the overview of a service that serves with one process.

    :param connection: the URL of its database.
    """
    url = f"{service.url}{paths.PREFIX}"
    paints = []
    sizes: list[int] = []
    for _ in range(_ROUNDS):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(url)
        paints.append(float(page.evaluate(_READ_PAINT)))
        sizes.append(int(page.evaluate(_READ_SIZE)))
        context.close()
    return Weight(
        sorted(paints)[_ROUNDS // 2], max(sizes) / 1000,
        *(_measure_processor(service, url, connection, changes) for changes in (True, False)))


def _measure_processor(
    service: serving.Service, url: str, connection: str, changes: bool
) -> float:
    """Return the processor time of the server for a visit, in milliseconds.

    :param changes: whether another process changes the database before each visit.
    """
    database = Database(Settings(connection), Journal())
    etag = _visit(url)
    before = _read_processor_ms(service.process.pid)
    for _ in range(_ROUNDS):
        if changes:
            factories.provider(Context(database), str(uuid.uuid4()), inventory={"VCPU": 8})
        etag = _visit(url, etag)
    spent = _read_processor_ms(service.process.pid) - before
    database.dispose()
    return spent / _ROUNDS


def _visit(url: str, etag: str | None = None) -> str:
    """Read a page; return its entity tag.

    :param etag: of the page that is known.
    """
    headers = {} if etag is None else {"If-None-Match": etag}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return str(response.headers["ETag"])
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        return str(etag)


_READ_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) =>
  resolve(list.getEntries()[0].startTime)).observe({type: "paint", buffered: true}))"""
_READ_SIZE = """() => [...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].reduce(
    (sum, entry) => sum + entry.decodedBodySize, 0)"""


def _read_processor_ms(session: int) -> float:
    """Return the processor time of the processes of a session."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return 1000 * ticks / _TICKS_A_SECOND


def main() -> None:
    """Measure, and print it."""
    with contextlib.ExitStack() as stack:
        fixture = stack.enter_context(chromium.Chromium())
        connection = make_database()
        service = stack.enter_context(serving.Service(connection, options=OPTIONS))
        weight = measure(fixture.browser, service, connection)
    print(f"{HOSTS} hosts: first paint after {weight.paint_ms:.0f} ms, "
          f"{weight.kilobytes:.0f} kB, {weight.processor_ms:.0f} ms of processor time, "
          f"{weight.unchanged_ms:.1f} ms if nothing changed")


if __name__ == "__main__":
    main()
