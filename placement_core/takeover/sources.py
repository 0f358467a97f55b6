"""Opens the database of another service: read-only, one snapshot, a schema that is known."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import urllib.parse
from collections.abc import Callable, Collection, Iterator

import sqlalchemy as sa

from placement_core import errors
from placement_core.masking import mask_text, mask_url
from placement_core.takeover.errors import UnknownSchema
from placement_core.takeover.records import Contents, Surroundings

#: Our drivers, for URLs that name none or those of the other services.
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
#: How a transaction begins that only reads, and sees one moment.
_SNAPSHOTS = {
    "postgresql": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",),
    "mysql": ("ROLLBACK", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
              "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"),
    "sqlite": ("PRAGMA query_only = on", "BEGIN"),
}
_VERSIONS = sa.select(sa.column("version_num")).select_from(sa.table("alembic_version"))


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A kind of source.

    :ivar name: what its service is called on the command line.
    :ivar kinds: the kinds of records that it has.
    :ivar schema: the Alembic revisions of its schema that are known.
    :ivar read: returns all of it, as it is to be in its surroundings here.
    """

    name: str
    kinds: Collection[str]
    schema: Collection[str]
    read: Callable[[sa.Connection, Surroundings], Contents]


def read(source: Source, url: str, surroundings: Surroundings) -> Contents:
    """Return all that a source has, as of one moment; nothing in it is changed.

    :param url: of its database, as its own configuration has it.
    :raises errors.ConfigurationError: the database cannot be read, or has another schema.
    """
    with _open(source.name, url) as connection:
        require_schema(connection, source.name, source.schema)
        return source.read(connection, surroundings)


def require_schema(connection: sa.Connection, name: str, schema: Collection[str]) -> None:
    """Refuse the database of a service whose schema is another one.

    :raises UnknownSchema: it is.
    """
    versions = (set(connection.scalars(_VERSIONS))
                if sa.inspect(connection).has_table("alembic_version") else set())
    if versions != set(schema):
        raise UnknownSchema(name, versions, schema)


def parse_url(name: str, url: str, sqlite_mode: str) -> sa.URL:
    """Return the URL of a service's database with a driver of ours.

    :param sqlite_mode: how SQLite opens a file; one that is not there is never made.
    :raises errors.ConfigurationError: it is none, or of another kind of database.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise errors.ConfigurationError(f"{name}: {mask_url(url)} is not a URL") from error
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        raise errors.ConfigurationError(
            f"{name}: the URL {mask_url(url)} is not one of {', '.join(_DRIVERS)}")
    parsed = parsed.set(drivername=_DRIVERS[backend])
    if backend == "sqlite":
        path = urllib.parse.quote(os.path.abspath(parsed.database or ""))
        parsed = parsed.set(
            database=f"file:{path}", query={"mode": sqlite_mode, "uri": "true"})
    return parsed


def describe_failure(error: sa.exc.SQLAlchemyError) -> str:
    """Return what a database says, in one line without secrets."""
    reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    return mask_text(reason)


@contextlib.contextmanager
def _open(name: str, url: str) -> Iterator[sa.Connection]:
    parsed = parse_url(name, url, "ro")
    try:
        engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        with engine.connect() as connection:
            for statement in _SNAPSHOTS[parsed.get_backend_name()]:
                connection.exec_driver_sql(statement)
            yield connection
    except sa.exc.SQLAlchemyError as error:
        raise errors.ConfigurationError(
            f"{name}: {mask_url(url)} cannot be read: {describe_failure(error)}") from error
