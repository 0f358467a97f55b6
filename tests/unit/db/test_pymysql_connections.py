import datetime
import decimal

from pymysql import converters
from pymysql.connections import Connection
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import Cursor

from placement_core.db import pymysql_connections
from placement_core.db.pymysql_connections import SharedContextConnection
from tests import base

_MOMENT = datetime.datetime(2026, 3, 1, 12, 0, 5)


class TestLiterals(base.TestCase):

    def test_they_are_as_the_driver_writes_them(self):
        connection = SharedContextConnection(defer_connect=True)
        connection.server_status = 0
        for value in (
                0, -7, 2**63 - 1, True, False, None, 1.5, decimal.Decimal("2.50"), "", "it's",
                "a\\b", "%s", "two\nlines", b"\x00'", _MOMENT,
                _MOMENT.replace(microsecond=7), _MOMENT.replace(year=7),
                _MOMENT.replace(tzinfo=datetime.UTC), _MOMENT.date(), [1, None, "it's"]):
            with self.subTest(value=value):
                self.assertEqual(Connection.escape(connection, value), connection.escape(value))

    def test_moments_are_what_the_driver_reads(self):
        connection = SharedContextConnection(defer_connect=True)
        for kind in (FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP):
            for text in ("2026-03-01 12:00:05", "2026-03-01 12:00:05.000700",
                         "2026-03-01 12:00:05.7", "0007-03-01 00:00:00", "0000-00-00 00:00:00",
                         "2026-02-31 12:00:05"):
                with self.subTest(text=text):
                    self.assertEqual(
                        converters.convert_datetime(text), connection.decoders[kind](text))

    def test_statements_are_as_the_driver_writes_them(self):
        connection = SharedContextConnection(defer_connect=True)
        connection.server_status = 0
        cursor = Cursor(connection)
        row = {"id": 7, "name": "it's 100 %", "at": _MOMENT, "more": None}
        select = "SELECT '%%' FROM t WHERE name = %(name)s AND at < %(at)s AND more IS %(more)s"
        self.assertEqual(cursor.mogrify(select, row),
                         pymysql_connections._render(connection, select, row))
        self.assertEqual("SELECT '%%'",
                         pymysql_connections._render(connection, "SELECT '%%'", None))
        insert = ("INSERT INTO t (id, name) VALUES (%(id)s, %(name)s) "
                  "ON DUPLICATE KEY UPDATE name = CONCAT(name, '%%')")
        self.assertEqual(
            r"INSERT INTO t (id, name) VALUES (7, 'it\'s 100 %'),(8, NULL) "
            "ON DUPLICATE KEY UPDATE name = CONCAT(name, '%')",
            pymysql_connections._render(connection, insert, [row, {"id": 8, "name": None}]))
