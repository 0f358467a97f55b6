"""Opens the database of another service: read-only, one snapshot, a schema that is known."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Sequence

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
    :ivar label: tells it from others of the same service, of which each has its own records.
    :ivar own_kinds: the kinds of which no other source may have the same record.
    :ivar looks_around: whether it needs to know what is here; otherwise the surroundings are
        empty but for the dialect.
    """

    name: str
    kinds: Collection[str]
    schema: Collection[str]
    read: Callable[[sa.Connection, Surroundings], Contents]
    label: str = ""
    own_kinds: Sequence[str] = ()
    looks_around: bool = False

    @property
    def origin(self) -> str:
        """Return under which name it is remembered where records come from."""
        return f"{self.name}@{self.label}" if self.label else self.name


#: How long a label may be: ``copied_records.source`` has 32 characters.
LONGEST_LABEL = 20


def make_label(url: str) -> str:
    """Return a label for the database of a URL: its host and name, or a digest of both.

    The same for all users, drivers and options. What is no URL has none: ``read`` says so.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        return ""
    host = parsed.host or ""
    if parsed.port:
        host += f":{parsed.port}"
    text = f"{host}/{parsed.database or ''}" if host else os.path.abspath(parsed.database or "")
    if len(text) <= LONGEST_LABEL:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:LONGEST_LABEL]


def read(source: Source, url: str, surroundings: Surroundings) -> Contents:
    """Return all that a source has, as of one moment; nothing in it is changed.

    :param url: of its database, as its own configuration has it.
    :raises errors.ConfigurationError: the database cannot be read, or has another schema.
    """
    with _open(source.name, url) as connection:
        versions = (set(connection.scalars(_VERSIONS))
                    if sa.inspect(connection).has_table("alembic_version") else set())
        if versions != set(source.schema):
            raise UnknownSchema(source.name, versions, source.schema)
        return source.read(connection, surroundings)


@contextlib.contextmanager
def _open(name: str, url: str) -> Iterator[sa.Connection]:
    try:
        parsed = sa.make_url(url)
        backend = parsed.get_backend_name()
        if backend not in _DRIVERS:
            raise errors.ConfigurationError(
                f"{name}: the URL {mask_url(url)} is not one of {', '.join(_DRIVERS)}")
        parsed = parsed.set(drivername=_DRIVERS[backend])
        if backend == "sqlite":
            # A file that is not there would be made.
            path = urllib.parse.quote(os.path.abspath(parsed.database or ""))
            parsed = parsed.set(database=f"file:{path}", query={"mode": "ro", "uri": "true"})
        engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        with engine.connect() as connection:
            for statement in _SNAPSHOTS[backend]:
                connection.exec_driver_sql(statement)
            yield connection
    except sa.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise errors.ConfigurationError(
            f"{name}: {mask_url(url)} cannot be read: {mask_text(reason)}") from error
