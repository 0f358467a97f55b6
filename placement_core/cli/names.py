"""The names that commands print beside ids."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping

from placement_core import errors, services as service_parts
from placement_core.cli.base import Failed, NameOrId
from placement_core.context import Context


class CatalogNames:
    """Names of what is in the catalog: one query for each kind, however many are asked for.

    :param say: is told why names are missing. A catalog that is kept elsewhere may not answer,
        and the rest of an answer is good without names.
    """

    def __init__(
        self, parts: service_parts.Services, ctx: Context, say: Callable[[str], None]
    ) -> None:
        self._catalog = parts.catalog
        self._ctx = ctx
        self._say = say
        self._missing = False

    def node(self, id_: str | None) -> NameOrId:
        """Return the name of a project or domain."""
        return NameOrId((self._projects.get(id_) or self._domains.get(id_), id_))

    def service(self, id_: str | None) -> NameOrId:
        """Return the name of a service, or its type where it has none."""
        return NameOrId((self._services.get(id_), id_))

    @functools.cached_property
    def _projects(self) -> Mapping[str | None, str]:
        return self._read(lambda: {
            project.id: project.name for project in self._catalog.projects(self._ctx)})

    @functools.cached_property
    def _domains(self) -> Mapping[str | None, str]:
        return self._read(lambda: {
            domain.id: domain.name for domain in self._catalog.domains(self._ctx)})

    @functools.cached_property
    def _services(self) -> Mapping[str | None, str]:
        return self._read(lambda: {
            service.id: service.name or service.type
            for service in self._catalog.services(self._ctx)})

    def _read(self, read: Callable[[], dict[str | None, str]]) -> Mapping[str | None, str]:
        try:
            return read()
        except errors.Unavailable as error:
            if not self._missing:
                self._say(f"names are missing: {error}")
            self._missing = True
            return {}


def add_project_filter(parser: argparse.ArgumentParser) -> None:
    """Add the option that lists what is of one project."""
    parser.add_argument("--project", metavar="PROJECT",
                        help="only those of this project: its id or its name")


def find_project_id(parts: service_parts.Services, ctx: Context, text: str) -> str:
    """Return the id of the one project of an id or name; an unknown text is an id.

    So is one that a catalog which is kept elsewhere does not answer for.
    """
    try:
        if parts.catalog.project(ctx, text) is None and parts.catalog.domain(ctx, text) is None:
            ids = [project.id for project in parts.catalog.projects(ctx, name=text)]
            return require_one(ids, "projects", text) if ids else text
    except errors.Unavailable:
        pass
    return text


def require_one(ids: list[str], what: str, text: str) -> str:
    """Return the only one of the ids that a name stands for."""
    if len(ids) > 1:
        raise Failed(f"{text} names several {what}: {', '.join(ids)}; name one by its id")
    return ids[0]
