"""Take the pictures of the dashboard that the documents show: ``make screenshots``.

The cloud is that of ``placement-core demo``. Its clock stands still (Debian: faketime), and its
ids are always the same, so pictures that are taken again are the same, byte for byte, unless the
pages or Chromium have changed. They need Chromium, as ``tests/browser`` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

from PIL import Image
from playwright import sync_api

from placement_core.http.dashboard import paths
from tests import serving
from tests.browser import chromium

FOLDER = pathlib.Path(__file__).with_name("pictures")
#: What nobody has to wait for who reads a document, in bytes.
MOST_BYTES = 150_000
_SECONDS_TO_BEGIN = 60
#: When the cloud is made, and when the pictures are taken: leases that begin at once have begun.
_MADE_AT, _TAKEN_AT = "2027-03-01 09:58:00", "2027-03-01 10:00:00"
#: What libfaketime reads: files keep their times, and waits take their time.
_CLOCK_OPTIONS = {"NO_FAKE_STAT": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                  "DONT_FAKE_MONOTONIC": "1"}
#: A command whose ids are the same each time.
_COMMAND = """
import random, sys, uuid
numbers = random.Random(1)
uuid.uuid4 = lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)
from placement_core.cli.main import main
sys.exit(main())
"""
#: What many clouds have, so that pages are not empty.
_CONFIGURATION = """
[least_stranded]
shape = VCPU:2,MEMORY_MB:4096,DISK_GB:20
shape = VCPU:4,MEMORY_MB:8192,DISK_GB:40
shape = VCPU:8,MEMORY_MB:32768,DISK_GB:80
[thresholds]
enabled = true
interval = 5
[reservations]
manager_threads = 1
"""
_NEED = {"count": "4", "vcpu": "8", "memory_mb": "32768", "project": "detector",
         "duration": "2d"}


@dataclasses.dataclass(frozen=True)
class Screenshot:
    """A picture of a page.

    :ivar path: of the page, below the dashboard.
    :ivar query: of the page.
    :ivar link: the text of a link on that page, which is followed.
    :ivar selector: of the part that is shown; None: the page from its top.
    :ivar size: of the window.
    """

    name: str
    path: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    link: str | None = None
    selector: str | None = None
    size: tuple[int, int] = (1280, 900)
    scheme: str = "light"


SCREENSHOTS: Sequence[Screenshot] = (
    Screenshot("dashboard-answers", "", _NEED, size=(1280, 1240)),
    Screenshot("dashboard-overview", "", selector=".panels", size=(1280, 1900)),
    Screenshot("dashboard-hosts", "/hosts", size=(1280, 620), scheme="dark"),
    Screenshot("dashboard-host", "/hosts", link="rack1-host02", size=(1280, 1000)),
    Screenshot("dashboard-projects", "/projects", selector="main"),
    Screenshot("dashboard-leases", "/leases", {"by": "host"}, size=(1280, 900)),
    Screenshot("dashboard-explain", "/explain",
               {"resources": "VCPU:16,MEMORY_MB:98304", "required": "STORAGE_DISK_SSD"},
               size=(1280, 1100)),
    Screenshot("dashboard-phone", "", _NEED, selector=".answer:first-child",
               size=(360, 900), scheme="dark"),
)


def main() -> int:
    """Take every picture; return 1 if something that they need is missing."""
    missing = chromium.find_missing()
    if missing is None and shutil.which("faketime") is None:
        missing = "faketime (Debian: faketime)"
    if missing is not None:
        print(f"The pictures need {missing}.")
        return 1
    FOLDER.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        service = stack.enter_context(_serve_demo(folder))
        browser = stack.enter_context(chromium.Chromium()).browser
        for screenshot in SCREENSHOTS:
            image = compress(take(browser, f"{service.url}{paths.PREFIX}", screenshot))
            if len(image) > MOST_BYTES:
                print(f"{screenshot.name} has {len(image)} bytes, more than {MOST_BYTES}")
                return 1
            (FOLDER / f"{screenshot.name}.png").write_bytes(image)
    return 0


def take(browser: sync_api.Browser, url: str, screenshot: Screenshot) -> bytes:
    """Return a picture as Chromium makes it.

    :param url: of the dashboard.
    """
    width, height = screenshot.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=screenshot.scheme)
    page = context.new_page()
    query = urllib.parse.urlencode(screenshot.query)
    page.goto(f"{url}{screenshot.path}{'?' if query else ''}{query}")
    if screenshot.link is not None:
        page.get_by_role("link", name=screenshot.link, exact=True).first.click()
        page.wait_for_load_state()
    shown = page if screenshot.selector is None else page.locator(screenshot.selector)
    image = shown.screenshot()
    context.close()
    return image


def compress(image: bytes) -> bytes:
    """Return a PNG with a palette."""
    output = io.BytesIO()
    with Image.open(io.BytesIO(image)) as picture:
        # The palette has rare colours, too: the line of the present is a few pixels.
        picture.convert("RGB").quantize(
            method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE,
        ).save(output, "PNG", optimize=True)
    return output.getvalue()


@contextlib.contextmanager
def _serve_demo(folder: str) -> Iterator[serving.Service]:
    """Serve the demo's cloud, whose leases begin."""
    connection = f"sqlite:///{folder}/demo.sqlite"
    pathlib.Path(folder, "placement.conf").write_text(_CONFIGURATION)
    options = {"OS_DASHBOARD__ENABLED": "true", "OS_PLACEMENT_CONFIG_DIR": folder,
               "OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true"}
    environment = {**os.environ, **options, **_read_clock(_MADE_AT),
                   "OS_PLACEMENT_DATABASE__CONNECTION": connection}
    for command in (["db", "sync"], ["demo"]):
        subprocess.run(
            [sys.executable, "-c", _COMMAND, *command], env=environment, check=True,
            stdout=subprocess.DEVNULL)
    with serving.Service(connection, by="serve with manager", options={
            **options, **_read_clock(_TAKEN_AT)}) as service:
        deadline = time.monotonic() + _SECONDS_TO_BEGIN
        while _is_waiting(service) and time.monotonic() < deadline:
            time.sleep(0.5)
        yield service


def _read_clock(moment: str) -> dict[str, str]:
    """Return the environment of a process whose clock stands still.

    :param moment: what it shows, in UTC.
    """
    printed = subprocess.run(
        ["faketime", "-f", moment, "env"], env={**os.environ, "TZ": "UTC"}, check=True,
        capture_output=True, text=True).stdout
    given = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    return {"TZ": "UTC", "LD_PRELOAD": given["LD_PRELOAD"], "FAKETIME": given["FAKETIME"],
            **_CLOCK_OPTIONS}


def _is_waiting(service: serving.Service) -> bool:
    """Say whether a lease has not begun that begins at once, or no threshold was looked at."""
    _, leases = service.request("GET", "/v1/leases")
    _, reached = service.request("GET", "/capacity/v1/thresholds")
    return not reached["thresholds"] or any(
        lease["status"] == "PENDING" and lease["name"] in ("workshop", "simulation-run")
        for lease in leases["leases"])


if __name__ == "__main__":
    sys.exit(main())
