"""Connect to the databases of cells, and read from all of them concurrently.

The result names cells that are down, slow or refuse a read; they delay no caller for longer
than the deadline. The next read tries them again, so that a cell comes back by itself.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import logging
import os.path
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.cells import engines, tables, urls
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.db import Session
from placement_core.db.database import Settings, resolve_url
from placement_core.db.failures import translated_errors
from placement_core.masking import MASK
from placement_core.plugin_api.counting import MissingCell

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: A cell gets no further reads while this many are unanswered for this long (or half the
#: timeout, if that is less): each holds a thread and a connection.
_MOST_LATE = 8
_LATE_AFTER_SECONDS = 5.0

#: The default ports of servers.
_PORTS = {"postgresql": 5432, "mysql": 3306}

#: A read that takes longer to fail did not fail because of a dead pooled connection.
_QUICKLY_SECONDS = 1.0

_mappings = tables.cell_mappings
_CELLS = sa.select(
    _mappings.c.id, _mappings.c.uuid, _mappings.c.name, _mappings.c.transport_url,
    _mappings.c.database_connection, _mappings.c.disabled).order_by(_mappings.c.id)


@dataclasses.dataclass(frozen=True, slots=True)
class CellAnswers(Generic[T]):
    """The result of ``scatter_gather``.

    :ivar answers: {cell uuid: result of the read}.
    :ivar missing: the cells that did not answer.
    :ivar seconds: {cell name: how long the read took, or was waited for}.
    """

    answers: Mapping[str, T]
    missing: Sequence[MissingCell]
    seconds: Mapping[str, float]


class _Late(errors.Unavailable):
    """A cell is not read from, because too many reads from it are unanswered."""


class _CellQuery(Generic[T]):
    """A read from one cell.

    :ivar password: the password in the cell's URL, which must not be logged.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.password: str | None = None
        self.answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._started = time.monotonic()
        self._ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long the read took, or has taken so far."""
        return (self._ended or time.monotonic()) - self._started

    def start(self, ctx: Context, read: Callable[[Context, Cell], T]) -> None:
        """Start the read in a thread of its own."""
        self.password = ctx.database.url.password
        # A daemon thread, so that a cell that hangs does not keep the process from ending.
        threading.Thread(
            target=self._run, args=(ctx, read), name=f"cell {self.cell.title}", daemon=True,
        ).start()

    def refuse(self, error: Exception) -> None:
        """End the read with an error."""
        self._ended = time.monotonic()
        self.answer.set_exception(error)

    def _run(self, ctx: Context, read: Callable[[Context, Cell], T]) -> None:
        with engines.SHARED.query_under_way(ctx.database):
            try:
                answer = _read_from(ctx, read, self.cell)
            except Exception as error:  # noqa: BLE001  the caller gets it
                self.refuse(error)
            else:
                self._ended = time.monotonic()
                self.answer.set_result(answer)


class CellDatabases:
    """Connects to nova's API database and the cells' databases, as the options say."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the options of ``[api_database]``, ``[cells]`` and ``[placement_database]``.

        :raises errors.ConfigurationError: the URL of the API database is not valid.
        """
        own = conf.placement_database
        self._timeout_seconds: int = conf.cells.timeout_seconds
        self._cell = Settings(
            connection="",
            max_pool_size=own.max_pool_size,
            max_overflow=own.max_overflow,
            pool_timeout_seconds=self._timeout_seconds,
            connection_recycle_seconds=own.connection_recycle_time,
            statement_timeout_seconds=self._timeout_seconds,
            lock_timeout_seconds=min(own.lock_timeout_seconds, self._timeout_seconds),
            idle_in_transaction_timeout_seconds=own.idle_in_transaction_timeout_seconds,
            sqlite_synchronous=own.sqlite_synchronous,
            mysql_sql_mode=own.mysql_sql_mode or None,
            network_timeout_seconds=self._timeout_seconds,
            # The deadline bounds the whole read, and ``_read_from`` repeats it if necessary.
            retry_timeout_seconds=0,
            sqlite_create=False,
        )
        self._api: Settings | None = None
        if conf.api_database.connection:
            self._api = dataclasses.replace(
                self._cell, connection=conf.api_database.connection,
                pool_timeout_seconds=own.pool_timeout,
                statement_timeout_seconds=own.statement_timeout_seconds,
                lock_timeout_seconds=own.lock_timeout_seconds,
                network_timeout_seconds=own.network_timeout_seconds,
                retry_timeout_seconds=own.retry_timeout_seconds,
                named="[api_database] connection")
            engines.SHARED.database(self._api, of_cell=False)
        self._rules = urls.UrlRules(
            tuple(conf.cells.database_hosts), tuple(conf.cells.directories))
        self._template_source = (
            conf.cells.template_connection or conf.api_database.connection or own.connection)
        #: {cell uuid: why it did not answer the last read}; changes are logged.
        self._down: dict[str, str] = {}

    def api(self, ctx: Context) -> Context:
        """Return a context on the database of the mappings: ``ctx`` if it is on that one."""
        if self._api is None:
            return ctx
        database = engines.SHARED.database(self._api, of_cell=False)
        if _is_own(ctx, database.url):
            return ctx
        return Context(database, ctx.identity, ctx.request_id)

    def of(self, ctx: Context, cell: Cell) -> Context:
        """Return a context on a cell's database: ``ctx`` if it is on that one.

        :raises errors.ConfigurationError: the cell's URL is not valid or not allowed.
        """
        settings = self._make_settings(cell)
        if _is_own(ctx, self._check_url(ctx, cell, settings)):
            return ctx
        with _unfilled_errors(cell, settings):
            database = engines.SHARED.database(settings, of_cell=True)
        return Context(database, ctx.identity, ctx.request_id)

    def require_usable(self, ctx: Context, cell: Cell) -> None:
        """Refuse a cell whose URL cannot be used; its database need not exist.

        :raises errors.ConfigurationError: the cell's URL is not valid or not allowed.
        """
        self._check_url(ctx, cell, self._make_settings(cell))

    def same_database(self, ctx: Context, one: Cell, other: Cell) -> bool:
        """Return whether two cells have the same database; a cell with an invalid URL has none."""
        try:
            places = [_get_location(self._check_url(ctx, cell, self._make_settings(cell)))
                      for cell in (one, other)]
        except errors.ConfigurationError:
            return False
        return places[0] == places[1]

    def _make_settings(self, cell: Cell) -> Settings:
        named = f"the database_connection of cell {cell.title}"
        try:
            connection = urls.fill(cell.database_connection, self._template_source)
        except errors.ConfigurationError as error:
            raise errors.ConfigurationError(f"{named}: {error}") from None
        return dataclasses.replace(self._cell, connection=connection, named=named)

    def _check_url(self, ctx: Context, cell: Cell, settings: Settings) -> sa.URL:
        with _unfilled_errors(cell, settings):
            url = resolve_url(settings)
        if not _is_own(ctx, url):
            try:
                urls.require_allowed(url, self._rules)
                if urls.asks_for_login(cell.database_connection) and not self._rules.hosts:
                    urls.require_same_hosts(url, self._resolve_source())
            except urls.UrlRefused as refusal:
                reason = refusal.rule if _is_filled(cell, settings) else refusal
                raise errors.ConfigurationError(f"{settings.named}: {reason}") from None
        return url

    def _resolve_source(self) -> sa.URL:
        try:
            return resolve_url(dataclasses.replace(
                self._cell, connection=self._template_source))
        except errors.ConfigurationError:
            raise urls.UrlRefused("what fills its template is no URL of a database") from None

    def cells(self, ctx: Context) -> list[Cell]:
        """Return all cells in the order of creation, including disabled ones and cell0."""
        cells = _read_cells(self.api(ctx))
        self._forget_others(cells)
        return cells

    def _forget_others(self, cells: Sequence[Cell]) -> None:
        """Close the connections to databases that no cell has any longer."""
        connections = {"" if self._api is None else self._api.connection}
        for cell in cells:
            with contextlib.suppress(errors.ConfigurationError):
                connections.add(urls.fill(cell.database_connection, self._template_source))
        engines.SHARED.retain(connections)

    def scatter_gather(
        self, ctx: Context, read: Callable[[Context, Cell], T],
        cells: Sequence[Cell] | None = None,
    ) -> CellAnswers[T]:
        """Read from cells concurrently.

        :param read: runs in a thread of its own with a context of its own. It must only read,
            because it may run twice, and continue after its result is no longer needed.
        :param cells: the cells to read from; None: all cells.
        :raises Exception: the error of a read that failed for another reason than its database.
        """
        deadline = time.monotonic() + self._timeout_seconds
        queries = [self._start_query(ctx, read, cell)
                   for cell in (self.cells(ctx) if cells is None else cells)]
        concurrent.futures.wait(
            [query.answer for query in queries], timeout=max(0.0, deadline - time.monotonic()))
        answers = {}
        missing = []
        for query in queries:
            reason = self._find_reason(query)
            self._log(query, reason)
            if reason is None:
                answers[query.cell.uuid] = query.answer.result()
            else:
                missing.append(MissingCell(query.cell.uuid, query.cell.title, reason))
        seconds = {query.cell.title: query.seconds for query in queries}
        return CellAnswers(answers, missing, seconds)

    def _start_query(
        self, ctx: Context, read: Callable[[Context, Cell], T], cell: Cell
    ) -> _CellQuery[T]:
        query: _CellQuery[T] = _CellQuery(cell)
        try:
            database = self.of(ctx, cell).database
        except errors.ConfigurationError as error:
            query.refuse(error)
            return query
        late = engines.SHARED.count_late(
            database, min(_LATE_AFTER_SECONDS, self._timeout_seconds / 2))
        if late >= _MOST_LATE:
            query.refuse(_Late(f"{late} of them"))
        else:
            query.start(Context(database, ctx.identity, ctx.request_id), read)
        return query

    def _find_reason(self, query: _CellQuery[T]) -> str | None:
        """Return why a cell is missing, or None if it answered."""
        if not query.answer.done():
            return f"no answer within {self._timeout_seconds} seconds"
        error = query.answer.exception()
        if error is None:
            return None
        if isinstance(error, _Late):
            return "too many earlier questions still wait for its answer"
        if isinstance(error, errors.ConfigurationError):
            return "its database_connection makes no sense"
        if isinstance(error, errors.Unavailable):
            return "its database does not answer"
        if isinstance(error, db_exception.DBError | sa.exc.SQLAlchemyError):
            return "its database refuses the question"
        raise error

    def _log(self, query: _CellQuery[T], reason: str | None) -> None:
        """Log when a cell goes missing, for which reason, and when it is back."""
        cell = query.cell
        if self._down.get(cell.uuid) == reason:
            return
        if reason is None:
            self._down.pop(cell.uuid, None)
            LOG.warning("cell %s (%s) answers again", cell.title, cell.uuid)
        else:
            self._down[cell.uuid] = reason
            LOG.warning("cell %s (%s) is missing: %s%s", cell.title, cell.uuid, reason,
                        _format_detail(query))


@db.retry_writes
def _read_cells(api: Context) -> list[Cell]:
    with db.read_once(api) as session:
        return load_cells(session)


def load_cells(session: Session) -> list[Cell]:
    """Return all cells in the order of creation, in the caller's transaction."""
    # Nova leaves columns without a value NULL.
    return [
        Cell(row.id, row.uuid, row.name or "", row.transport_url or "",
             row.database_connection or "", bool(row.disabled))
        for row in session.execute(_CELLS)]


def _read_from(ctx: Context, read: Callable[[Context, Cell], T], cell: Cell) -> T:
    """Read from a cell; once more if a pooled connection had died while it was idle."""
    started = time.monotonic()
    try:
        with translated_errors():
            return read(ctx, cell)
    except db.TransactionConflict:
        if time.monotonic() - started > _QUICKLY_SECONDS:
            raise
        with translated_errors():
            return read(ctx, cell)
    except (errors.Error, db_exception.DBError, sa.exc.SQLAlchemyError):
        raise
    except Exception as error:
        if _driver_fails(ctx):
            raise errors.ConfigurationError("the driver cannot connect") from error
        raise


def _driver_fails(ctx: Context) -> bool:
    """Return whether the driver fails before it tries to connect.

    It then raises any Python exception, because of an unusual part of the URL; a defective
    read may raise the same exception.
    """
    try:
        with ctx.database.connection(ctx.database.autocommit):
            return False
    except (errors.Error, db_exception.DBError, sa.exc.SQLAlchemyError):
        return False
    except Exception:  # noqa: BLE001  whatever the driver raises
        return True


def _format_detail(query: _CellQuery[Any]) -> str:
    """Return the driver's message in one line, without the cell's password."""
    error = query.answer.exception() if query.answer.done() else None
    if error is None:
        return ""
    cause = error.__cause__
    if cause is None:
        return f" ({error})"
    while cause.__cause__ is not None:
        cause = cause.__cause__
    message = str(cause).strip().partition("\n")[0]
    return f" ({message.replace(query.password, MASK) if query.password else message})"


def _is_filled(cell: Cell, settings: Settings) -> bool:
    return settings.connection != cell.database_connection


@contextlib.contextmanager
def _unfilled_errors(cell: Cell, settings: Settings) -> Iterator[None]:
    """Leave the URL out of errors if it is a template that was filled in.

    Whoever may write a template must not read there what filled it.
    """
    try:
        yield
    except errors.ConfigurationError:
        if not _is_filled(cell, settings):
            raise
        raise errors.ConfigurationError(
            f"{settings.named}: its template makes no URL of a database") from None


def _is_own(ctx: Context, url: sa.URL) -> bool:
    """Return whether a URL is that of the context's own database, with the same user."""
    return (_get_location(ctx.database.url) == _get_location(url)
            and ctx.database.url.username == url.username)


def _get_location(url: sa.URL) -> tuple[object, ...]:
    """Return what identifies a database: the same for all URLs of it, whichever the user."""
    backend = url.get_backend_name()
    if backend == "sqlite":
        return backend, os.path.realpath(url.database or "")
    return (backend, url.host or url.query.get("host"), url.port or _PORTS[backend],
            url.database)
