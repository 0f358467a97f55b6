"""What clients are told where PostgreSQL's sequences are behind their tables."""

from __future__ import annotations

import unittest
import uuid

from tests import databases
from tests.http.placement_api.cases import PlacementTestCase


@unittest.skipUnless("postgresql" in databases.KINDS, "no PostgreSQL")
class TestBehind(PlacementTestCase):
    kind = "postgresql"

    def behind(self, table: str) -> None:
        with self.parts[-1].database.writer.begin() as connection:
            connection.exec_driver_sql(
                f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}), false)")

    def test_a_claim_and_a_provider(self) -> None:
        host = self.provider("host", VCPU=8)
        body = {"allocations": {host: {"resources": {"VCPU": 1}}}, "project_id": "first",
                "user_id": "jane", "consumer_generation": None, "consumer_type": "INSTANCE"}
        self.call("PUT", f"/allocations/{uuid.uuid4()}", body, status=204)
        self.behind("projects")
        self.behind("resource_providers")
        for method, path, document, table in (
            ("PUT", f"/allocations/{uuid.uuid4()}", {**body, "project_id": "second"}, "projects"),
            ("POST", "/resource_providers", {"name": "new"}, "resource_providers"),
        ):
            response = self.call(method, path, document, status=503)
            self.assertIn(f"The sequence of table {table} is behind it", response.text)
            self.assertIn("run `placement-core db sync`", response.text)
