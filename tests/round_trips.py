"""Counting what a service sends to its database."""

import sqlalchemy as sa


class RoundTrips:
    """Counts what is sent to the database: statements, BEGIN and COMMIT."""

    def __init__(self, database):
        self.count = 0
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
