"""Questions: small reads that are asked for every request, straight from the driver.

Executing a statement through SQLAlchemy takes several times the processor time of
the driver that sends it. A search, or an answer that has not changed, consists of
little else. Where anything goes wrong, the question is asked again in SQLAlchemy's
way, which knows what every driver's errors mean.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import forms
from placement_core.db.failures import judged
from placement_core.db.forms import Form

_Select = sa.Select[Any] | sa.CompoundSelect[Any]

#: Makes rows of what a driver returned.
_Rows = Callable[[Sequence[Any]], list[Any]]


class Question:
    """A statement that reads, and is asked all the time.

    It takes and returns numbers, texts and times. One statement sees one snapshot by itself: no
    transaction is begun, but an open one is joined.
    """

    __slots__ = ("_forms", "_statement")

    def __init__(self, statement: _Select) -> None:
        self._statement = statement
        #: For each dialect the form, and how rows are made.
        self._forms: dict[str, tuple[Form, _Rows]] = {}

    def ask(self, ctx: Context, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Return the rows, as named tuples.

        :raises errors.Unavailable: the database does not answer; and what else
            ``judged`` makes of errors.
        """
        if ctx.session is not None:
            return ctx.session.execute(self._statement, parameters).all()
        engine, lines = ctx.database.autocommit, ctx.database.lines
        known = self._forms.get(engine.dialect.name)
        if known is None:
            known = self._forms[engine.dialect.name] = (
                forms.of_select(self._statement, engine.dialect),
                _rows(self._statement, engine.dialect))
        form, rows = known
        with judged():
            line = lines.take()
            try:
                line.cursor.execute(form.text, form.bind(parameters or {}))
                found = rows(line.cursor.fetchall())
            except BaseException as error:
                line.close()
                if not isinstance(error, engine.dialect.loaded_dbapi.Error):
                    raise
            else:
                lines.give_back(line)
                return found
            with engine.connect() as again:
                return again.execute(self._statement, dict(parameters or {})).all()


def _rows(statement: _Select, dialect: sa.Dialect) -> _Rows:
    """Return what names the columns, and converts times where a driver does not (SQLite)."""
    names = [column.key or "" for column in statement.selected_columns]
    named: Any = collections.namedtuple  # mypy wants to read the names here.
    make = named("Row", names, rename=True)._make
    converters = [
        column.type.dialect_impl(dialect).result_processor(dialect, None)
        if isinstance(column.type, sa.DateTime) else None
        for column in statement.selected_columns]
    if not any(converters):
        return lambda found: [make(row) for row in found]
    return lambda found: [
        make([value if convert is None else convert(value)
              for convert, value in zip(converters, row, strict=True)])
        for row in found]
