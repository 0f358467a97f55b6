"""Pages as a browser asks for them, of an empty service or of the small cloud of ``demo``."""

from __future__ import annotations

import functools
import pathlib
import shutil
import urllib.parse
from collections.abc import Mapping

import bs4
import fixtures
import webob

from placement_core.cli import demo_cloud
from placement_core.context import Context
from placement_core.http.dashboard import api

# By its name: a test that fills the database does not count these parts as its own.
from placement_core.services import build
from tests import databases
from tests.http import base


class BrowsingTestCase(base.HttpTestCase):
    """A service with pages, and nothing in it."""

    pages = (api.API,)
    options = {("dashboard", "enabled"): True,
               ("quota", "count_usage_from_placement"): True}

    def setUp(self) -> None:
        super().setUp()
        self.services = self.parts[0]
        self.ctx: Context = self.services.context()

    def get(
        self, path: str = "", *, token: str | None = "admin", roles: str | None = None,
        environ: Mapping[str, str] | None = None, method: str = "GET", **headers: str,
    ) -> webob.Response:
        """Ask for a page; ``path`` is below /dashboard, or the rest of its name."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if roles is not None:
            sent["X-Roles"] = roles
        return self.ask(method, f"/dashboard{path}", version=None, token=token, headers=sent,
                        environ=environ)

    def show(self, status: int = 200, *, token: str = "admin", roles: str | None = None,
             **fields: object) -> bs4.BeautifulSoup:
        """Send the form of the overview; return the page."""
        response = self.get(f"?{urllib.parse.urlencode(fields)}", token=token, roles=roles)
        self.assertEqual(status, response.status_int, response.text[:2000])
        return bs4.BeautifulSoup(response.text, "html.parser")


class DemoTestCase(BrowsingTestCase):
    """The same with the small cloud, in SQLite; limits bind trees of projects.

    :ivar projects: {name of a project: its id}.
    """

    options = {**BrowsingTestCase.options, ("limits", "enforcement_model"): "tree"}

    def setUp(self) -> None:
        super().setUp()
        self.projects = {project.name: project.id
                         for project in self.services.catalog.projects(self.ctx)}

    def connection(self) -> str:
        """Copy the database of the cloud; return its URL."""
        return copy_demo(self)


def copy_demo(test: fixtures.TestWithFixtures) -> str:
    """Copy the database of the small cloud for a test; return its URL."""
    path = pathlib.Path(test.useFixture(fixtures.TempDir()).path, "placement.sqlite")
    shutil.copy(_make_demo(), path)
    return f"sqlite:///{path}"


@functools.cache
def _make_demo() -> str:
    """Fill a database, once in this process; return its path."""
    settings = databases.settings("sqlite")
    parts = build(base.configuration(settings.connection))
    demo_cloud.fill(parts, parts.context(), lambda _line: None)
    parts.database.dispose()
    return settings.connection.removeprefix("sqlite:///")


def read(element: bs4.Tag | None) -> str:
    """Return what people read of an element, in one line."""
    assert element is not None
    return " ".join(element.get_text(" ").split())
