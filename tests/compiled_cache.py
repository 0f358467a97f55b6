"""What SQLAlchemy has compiled, for all engines of a process that take the same texts.

An engine keeps that to itself. Each test makes several, and would compile all its statements anew:
a quarter of the processor time of tests of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import sqlalchemy as sa

from placement_core.caches import BoundedCache

#: Of some tens of kilobytes each. A test has some hundred.
_MOST_STATEMENTS = 1000


class _SharedCache:
    """The part of a cache that engines of equal dialects have in common.

    SQLAlchemy's keys begin with an engine's own dialect.
    """

    _statements: BoundedCache[Hashable, Any] = BoundedCache(_MOST_STATEMENTS)

    def get(self, key: tuple[Any, ...]) -> Any:
        """Return a compiled statement; None: there is none."""
        return self._statements.get(_make_key(*key))

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        self._statements.put(_make_key(*key), compiled)


def _make_key(dialect: Any, *rest: Hashable) -> Hashable:
    # The version is known once the first connection has been made, before any statement.
    return (type(dialect), dialect.paramstyle, dialect.server_version_info,
            getattr(dialect, "is_mariadb", None), *rest)


def share() -> None:
    """Let all engines that are made from now on share what is compiled."""
    create_engine: Callable[..., sa.Engine] = sa.create_engine

    def create_sharing(*arguments: Any, **options: Any) -> sa.Engine:
        engine = create_engine(*arguments, **options)
        # Nothing public replaces the cache of an engine that has options of its own already.
        engine._compiled_cache = _SharedCache()  # type: ignore[assignment]
        return engine

    sa.create_engine = create_sharing
