"""Counting what a service sends to its database."""

import weakref

import sqlalchemy as sa

from placement_core.db import PreparedRead


class RoundTrips:
    """Counts what is sent to the database: statements, BEGIN and COMMIT."""

    def __init__(self, database):
        self.count = 0
        self.database = database
        _COUNTING.add(self)
        for engine in (database.writer, database.autocommit, database.snapshot):
            sa.event.listen(engine, "before_cursor_execute", self._one)
        for engine in (database.writer, database.snapshot):
            sa.event.listen(engine, "commit", self._one)
            sa.event.listen(engine, "rollback", self._one)
            if database.dialect == "postgresql":
                # On SQLite BEGIN is counted as a statement already; PyMySQL's
                # connections are always in a transaction.
                sa.event.listen(engine, "begin", self._one)

    def _one(self, *_anything):
        self.count += 1

    def of(self, function, *arguments, **options):
        self.count = 0
        function(*arguments, **options)
        return self.count


#: Prepared reads go to the driver itself: no engine tells of them.
_COUNTING = weakref.WeakSet()
#: {what wants to hear of prepared reads, with their texts: the database}.
_HEARING = weakref.WeakKeyDictionary()
_fetch = PreparedRead.fetch


def _counted(read, ctx, parameters=None):
    if ctx.session is None:
        for each in _COUNTING:
            if each.database is ctx.database:
                each._one()
        for statements, database in list(_HEARING.items()):
            if database is ctx.database:
                statements.texts.append(str(read._statement))
    return _fetch(read, ctx, parameters)


PreparedRead.fetch = _counted


class Statements:
    """Notes the statements that are sent through a ``Database``."""

    def __init__(self, database):
        self.texts = []
        for engine in (database.writer, database.snapshot, database.autocommit):
            sa.event.listen(engine, "before_cursor_execute", self._note)
        _HEARING[self] = database

    def _note(self, _connection, _cursor, statement, *_rest):
        self.texts.append(statement)

    def taken(self, *words):
        """Return the statements with any of some words since the last time."""
        taken = [text for text in self.texts if any(word in text for word in words)]
        self.texts.clear()
        return taken
