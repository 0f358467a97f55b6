"""From what a view has read to HTML, by the templates."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

import jinja2
from pyramid.response import Response

from placement_core.context import Identity
from placement_core.http import replies, urls
from placement_core.http.conditional import ETag
from placement_core.http.dashboard import filters, paths, static_files, strip
from placement_core.http.dashboard.pictures import elements, patterns
from placement_core.http.dashboard.sections import Section
from placement_core.http.dashboard.strip import Strip
from placement_core.http.operations import Call, Reply
from placement_core.workers import store

#: How often a page that is looked at refreshes itself.
_REFRESH_SECONDS = 5
#: What a page shows of the time may be so old: it is read again after that, changed or not.
_TIME_STEP_SECONDS = 30

_FOLDER = pathlib.Path(__file__).with_name("templates")
_MEDIA_TYPE = "text/html; charset=utf-8"

#: What the navigation leads to: (text, path below the dashboard).
_NAVIGATION = (
    ("Overview", ""), ("Hosts", "/hosts"), ("Leases", "/leases"), ("Projects", "/projects"),
    ("Explain", "/explain"), ("Health", "/health"))


@dataclasses.dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link to a page; ``current``: it is the page itself."""

    text: str
    path: str
    current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What the base template knows of a page.

    :ivar path: below the dashboard.
    :ivar me: who is calling; None: nobody has logged in.
    :ivar strip: None: the page shows no state.
    :ivar refresh_seconds: how often it refreshes itself; None: never.
    """

    title: str
    path: str
    me: Identity | None = None
    strip: Strip | None = None
    read_at: datetime.datetime | None = None
    can_log_out: bool = False
    refresh_seconds: int | None = None

    @property
    def navigation(self) -> list[NavigationLink]:
        """Return the links to the main pages."""
        return [NavigationLink(text, path, path == self.path.rstrip("/"))
                for text, path in _NAVIGATION]


def render(
    call: Call, template: str, *, title: str, status: int = 200, partial: bool = False,
    **context: Any,
) -> Reply:
    """Return the reply that a template makes.

    :param partial: something could not be read now. It need not be said of values of ``context``
        that are a ``Section``.
    :param context: what the template shows.
    """
    address = urllib.parse.urlsplit(call.address).path
    mount = get_mount(call)
    state = strip.read(call)
    page = Page(
        title, urllib.parse.unquote(address.removeprefix(f"{mount}{paths.PREFIX}")),
        call.ctx.identity, state, datetime.datetime.now(datetime.UTC),
        can_log_out=call.services.conf.api.auth_strategy == "keystone",
        # What is refused now would be refused again, and counted each time.
        refresh_seconds=_REFRESH_SECONDS if status == 200 else None)
    partial = partial or any(
        isinstance(value, Section) and value.passing
        for value in (*context.values(), state.backlog))
    return Reply(
        status, _render(template, mount, page=page, **context), media_type=_MEDIA_TYPE,
        partial=partial)


def respond(
    environ: dict[str, Any], template: str, *, title: str, status: int, **context: Any
) -> Response:
    """Return the response that a template makes for nobody in particular: no database is read."""
    mount = urls.get_mount_path(environ)
    content = _render(template, mount, page=Page(title, ""), **context)
    return replies.render(
        Reply(status, content, media_type=_MEDIA_TYPE), environ, mount, cache_headers=False)


def tag(call: Call) -> ETag | None:
    """Return the entity tag of a page: its URL, its reader, the policy, all changes, the time."""
    policy = call.digest_policy()
    if policy is None:
        return None
    return ETag(
        (_digest_files(), call.address, repr(call.ctx.identity), policy),
        of_changes=True, step_seconds=_TIME_STEP_SECONDS)


def tag_with_refusals(call: Call) -> ETag | None:
    """Return the entity tag of a page that shows which requests were refused, too."""
    page_tag = tag(call)
    return page_tag and dataclasses.replace(page_tag, read_more=store.digest_refusals)


def get_mount(call: Call) -> str:
    """Return where the app is mounted, as a path."""
    return urllib.parse.urlsplit(call.prefix).path


def make_url(mount: str, path: str, query: Mapping[str, Any]) -> str:
    """Return the URL of a page of the dashboard.

    :param mount: where the app is mounted, as a path.
    :param query: of a list, each item; None is left out.
    """
    text = urllib.parse.urlencode(
        {name: value for name, value in query.items() if value is not None}, doseq=True)
    return f"{mount}{paths.PREFIX}{urls.quote_path(path)}{'?' if text else ''}{text}"


def _render(template: str, mount: str, **context: Any) -> bytes:
    def url(path: str, **query: Any) -> str:
        return make_url(mount, path, query)

    def static(name: str) -> str:
        return url(f"{paths.STATIC}/{static_files.load().names[name]}")

    # Templates that are imported with their context see these, too.
    return _environment().get_template(template).render(
        url=url, static=static, **context).encode()


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        # The files of a release do not change.
        auto_reload=False, cache_size=-1)
    environment.globals.update(
        patterns=patterns.draw_patterns(), fills=patterns.FILLS)
    environment.filters.update(
        number=filters.format_number, seconds=filters.format_seconds,
        when=filters.format_moment, key=elements.make_key)
    return environment


@functools.cache
def _digest_files() -> str:
    """Return the same text for the same templates and static files."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_FOLDER.rglob("*.html")):
        digest.update(path.read_bytes())
    digest.update(" ".join(static_files.load().contents).encode())
    return digest.hexdigest()
