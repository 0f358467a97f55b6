"""Requests for pages, and what they have to be."""

from __future__ import annotations

import html.parser
from typing import Any

import webob

from placement_core.cli import demo_cloud
from tests.http.dashboard import browsing
from tests.http.leases_api import cases

#: Elements without an end.
_VOID = {"meta", "link", "input", "br", "hr", "img"}


class PageParser(html.parser.HTMLParser):
    """Reads a page, and notes what is wrong with it.

    :ivar texts: what people read.
    :ivar labels: what is read of elements instead of their texts.
    :ivar roles: those of elements that name one.
    :ivar links: the addresses that links lead to.
    :ivar rows: the texts of the cells of tables, without those of pictures.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.labels: list[str] = []
        self.roles: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.problems: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        attributes = dict(attrs)
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _VOID:
            self._open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"] or "")
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.references += (attributes.get(name) or "").split()
        self.roles.add(attributes.get("role") or "")
        if "aria-label" in attributes:
            self.labels.append(attributes["aria-label"] or "")
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        if tag == "script" and "src" not in attributes:
            self.problems.append("a script in the page")
        self.problems += [f"{tag} has {name}" for name in attributes
                          if name == "style" or name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element of SVG without content."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the element ends that began last."""
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"{tag} ends in {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)
        if "tr" in self._open and "svg" not in self._open and self.rows[-1]:
            self.rows[-1][-1] += data

    def close(self) -> None:
        """Check what is only known at the end."""
        super().close()
        self.problems += [f"{tag} does not end" for tag in self._open]
        self.problems += [f"two have the id {id_}" for id_ in {
            each for each in self.ids if self.ids.count(each) > 1}]
        self.problems += [
            f"nothing has the id {id_}" for id_ in self.references if id_ not in self.ids]
        self.problems += [f"the id {id_!r}" for id_ in self.ids if not id_ or " " in id_]


class PageTestCase(cases.LeasesTestCase):
    """A service with an empty freepool and pages; who asks is an administrator, if nobody else."""

    options = {("dashboard", "enabled"): True}

    def setUp(self) -> None:
        super().setUp()
        #: Pages have no schema that answers could be held to.
        self.pages = self.app._application

    def page(
        self, path: str, status: int = 200, *, token: str = "admin", roles: str = "admin",
        **headers: str,
    ) -> PageParser:
        """Return a page, checked for what no page may have."""
        parser = PageParser()
        parser.feed(self.get_html(path, status, token=token, roles=roles, **headers))
        parser.close()
        self.assertEqual([], parser.problems)
        self.assertEqual(1, parser.tags.count("h1"))
        self.assertEqual(1, parser.tags.count("main"))
        return parser

    def get_html(
        self, path: str, status: int = 200, *, token: str = "admin", roles: str = "admin",
        **headers: str,
    ) -> str:
        """Return a page as it was sent."""
        request = webob.Request.blank(f"/dashboard{path}", headers={
            "X-Auth-Token": token, "X-Roles": roles, **headers})
        response = request.get_response(self.pages)
        self.assertEqual(
            status, response.status_int, f"{path}: {response.text.partition('<main')[2][:3000]}")
        self.assertEqual("text/html", response.content_type)
        return response.text

    def read(self, path: str, **options: Any) -> str:
        """Return what people read of a page, in one line."""
        return " ".join(" ".join(self.page(path, **options).texts).split())


class DemoTestCase(PageTestCase):
    """The small cloud of ``placement-core demo``.

    :ivar projects: {name: id}.
    """

    options = {**PageTestCase.options, ("quota", "count_usage_from_placement"): True}

    def setUp(self) -> None:
        super().setUp()
        if self.kind != "sqlite":
            demo_cloud.fill(self.services, self.ctx, lambda _line: None)
        self.projects = {
            project.name: project.id for project in self.services.catalog.projects(self.ctx)}

    def connection(self) -> str:
        """Make a database, with the cloud in it if it is a file; return its URL."""
        return browsing.copy_demo(self) if self.kind == "sqlite" else super().connection()
