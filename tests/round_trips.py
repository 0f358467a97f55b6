"""Counting what a service sends to its database."""

import weakref

import sqlalchemy as sa

from placement_core.db import PreparedRead, Session


class RoundTrips:
    """Counts how often a service waits for its database, BEGIN and COMMIT included.

    Statements that are sent together count once, with the BEGIN before them.
    """

    def __init__(self, database):
        self.count = 0
        self._begun = False
        self.database = database
        _COUNTING.add(self)
        for engine in (database.writer, database.autocommit, database.snapshot):
            # Whoever listens to the event before keeps statements from going together.
            sa.event.listen(engine, "after_cursor_execute", self._one)
        for engine in (database.writer, database.snapshot):
            sa.event.listen(engine, "commit", self._one)
            sa.event.listen(engine, "rollback", self._one)
            if database.dialect == "postgresql":
                # On SQLite BEGIN is counted as a statement already; PyMySQL's
                # connections are always in a transaction.
                sa.event.listen(engine, "begin", self._begin)

    def _begin(self, _connection):
        """psycopg sends BEGIN by itself before the first statement, unless several go together."""
        self._begun = True

    def _one(self, *_anything):
        self.count += 1 + self._begun
        self._begun = False

    def _several(self):
        self.count += 1
        self._begun = False

    def of(self, function, *arguments, **options):
        self.count = 0
        function(*arguments, **options)
        return self.count


#: What goes to the driver itself: no engine tells of it.
_COUNTING = weakref.WeakSet()
#: {what wants to hear of prepared reads, with their texts: the database}.
_HEARING = weakref.WeakKeyDictionary()
_fetch = PreparedRead.fetch
_flush, _send = Session.flush, Session._send


def _list_counting(engine=None, database=None):
    return [each for each in _COUNTING if database in (None, each.database) and engine in (
        None, each.database.writer, each.database.autocommit, each.database.snapshot)]


def _fetch_counted(read, ctx, parameters=None):
    if ctx.session is None:
        for each in _list_counting(database=ctx.database):
            # On a connection of its own, without BEGIN.
            each.count += 1
        for statements, database in list(_HEARING.items()):
            if database is ctx.database:
                statements.texts.append(str(read._statement))
    return _fetch(read, ctx, parameters)


def _flush_counted(session):
    if session._deferred:
        for each in _list_counting(session._connection.engine):
            each._several()
    _flush(session)


def _send_counted(session, *given):
    if not session._deferred and not session._behind:
        for each in _list_counting(session._connection.engine):
            each._one()
    return _send(session, *given)


PreparedRead.fetch = _fetch_counted
Session.flush, Session._send = _flush_counted, _send_counted


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
