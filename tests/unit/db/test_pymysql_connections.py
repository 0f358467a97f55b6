import datetime
import decimal

from pymysql.connections import Connection

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
