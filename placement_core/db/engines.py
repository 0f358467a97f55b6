"""Database engines: which one answers, and the oldest version that has what the service uses."""

from __future__ import annotations

import dataclasses
import sqlite3

from placement_core import errors
from placement_core.db.database import Database

#: The oldest versions that have what the service uses.
OLDEST = {"SQLite": (3, 24), "PostgreSQL": (13,), "MariaDB": (10, 6), "MySQL": (8, 0)}
_PRODUCTS = {"postgresql": "PostgreSQL", "mysql": "MySQL"}


@dataclasses.dataclass(frozen=True, slots=True)
class Engine:
    """A database engine; as a text, its name and version.

    :ivar product: a key of ``OLDEST``.
    """

    product: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {_join(self.version)}"

    @property
    def is_supported(self) -> bool:
        """Whether it has what the service uses, as far as its version says."""
        return self.version >= OLDEST[self.product]

    @property
    def expected(self) -> str:
        """What it has to be."""
        return f"{self.product} {_join(OLDEST[self.product])} or newer"


def identify(database: Database) -> Engine:
    """Return the engine of a database. An SQLite file is not opened for that."""
    if database.dialect == "sqlite":
        return Engine("SQLite", sqlite3.sqlite_version_info)
    with database.connection(database.autocommit) as connection:
        dialect = connection.dialect
        product = "MariaDB" if getattr(dialect, "is_mariadb", False) else _PRODUCTS[dialect.name]
        numbers = dialect.server_version_info or ()
        # Distributions of MySQL add a number of their own.
        return Engine(product, tuple(part for part in numbers if isinstance(part, int))[:3])


def require_supported(database: Database) -> None:
    """Check the version of the engine.

    :raises errors.ConfigurationError: it is too old; one line.
    """
    engine = identify(database)
    if not engine.is_supported:
        raise errors.ConfigurationError(
            f"{database.settings.named} = {database.masked_url}: it is {engine}; "
            f"expected {engine.expected}")


def _join(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
