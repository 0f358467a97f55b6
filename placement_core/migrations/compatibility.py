"""Whether this version of the code works with the schema that a database has."""

from __future__ import annotations

import dataclasses
import logging

from placement_core import errors
from placement_core.db.database import Database
from placement_core.migrations import revisions

LOG = logging.getLogger(__name__)


class SchemaError(errors.ConfigurationError):
    """The schema of the database does not have the revision that this version needs."""


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The schema of a database, as a running worker sees it.

    :ivar usable: whether this version of the code works with it: it has the newest revision, or
        one of a later version (revisions only add).
    :ivar text: its revision, and what is wrong with it.
    """

    usable: bool
    text: str


def read_status(database: Database) -> SchemaStatus:
    """Return the status of a database's schema.

    :raises errors.Unavailable: the database does not answer.
    """
    with database.connection(database.snapshot) as connection:
        revision = revisions.current(connection)
    newest = revisions.head()
    if revision == newest:
        return SchemaStatus(True, newest)
    if revision is not None and not revisions.is_known(revision):
        return SchemaStatus(True, f"{revision}, of a later version ({newest} is needed)")
    return SchemaStatus(False, f"{revision or 'none'}, expected {newest}")


def require_newest(database: Database) -> None:
    """Check that the schema has the newest revision.

    :raises SchemaError: it has not; the message names the revisions and, if the schema is not
        newer, the command to run.
    """
    with database.snapshot.connect() as connection:
        revision = revisions.current(connection)
    if revision == revisions.head():
        return
    if revision is not None and not revisions.is_known(revision):
        raise make_too_new(revision)
    raise SchemaError(
        f"the database's schema is at revision {revision or 'none'}, expected "
        f"{revisions.head()}: run `placement-core db sync`"
    )


def require_usable(database: Database) -> None:
    """Check that the schema is not older than what this version needs; log that it is newer.

    :raises SchemaError: it is older, or there is none.
    """
    status = read_status(database)
    if not status.usable:
        require_newest(database)
    if status.text != revisions.head():
        LOG.warning("the database's schema is at revision %s", status.text)


def make_too_new(revision: str) -> SchemaError:
    """Return the error of a schema that a newer version of the code has upgraded."""
    return SchemaError(
        f"the database's schema is at revision {revision}, which this version of "
        f"placement-core does not know (its newest is {revisions.head()}): a newer version "
        "upgraded it"
    )
