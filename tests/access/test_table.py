"""Who may do what: the committed table is what a real Keystone's tokens get.

It takes about a minute.
"""

from __future__ import annotations

import unittest

from tests import base, keystone_service
from tests.access import identities, table, worlds
from tests.outages import operations


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestTable(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.keystone = keystone_service.shared()

    def test_it_is_current(self) -> None:
        """A change of the table has to be committed, where reviewers see it."""
        differences = table.compare(table.render(table.play(self.keystone)))
        self.assertEqual([], differences, "\n".join([*differences, table.REWRITE]))

    def test_writes_are_noticed(self) -> None:
        """Else the table could not say that who was refused wrote nothing."""
        cloud = identities.make(self.keystone)
        world = self.enterContext(worlds.make_world(cloud))
        (project_id, _) = cloud.domains
        for sample in operations.each():
            if sample.operation in ("POST /resource_providers", "DELETE /v1/leases/{id}",
                                    "POST /v3/limits", "POST /capacity/v1/claims"):
                request = world.make_request(sample, project_id)
                self.assertTrue(world.ask(request, cloud.tokens["admin"]).wrote)
                self.assertFalse(world.ask(request, cloud.tokens["reader"]).wrote)
                # It was undone, so that the next caller finds the same world.
                self.assertTrue(world.ask(request, cloud.tokens["admin"]).wrote)


class TestCommitted(base.TestCase):
    """The table in the documents, without a Keystone."""

    def test_every_operation(self) -> None:
        """A new operation needs a row, with its rule."""
        lines = table.FILE.read_text().splitlines()
        for api, operation in table.list_operations():
            start = f"   ``{operation.method} {api.prefix}{operation.path}``, "
            start += f"``{operation.policy}``, " if operation.policy else "no rule, "
            self.assertEqual(1, sum(line.startswith(start) for line in lines),
                             f"{start}: {table.REWRITE}")

    def test_nobody_without_a_token(self) -> None:
        """Who has no good token gets nothing but what is public."""
        public = {f"{operation.method} {api.prefix}{operation.path}"
                  for api, operation in table.list_operations() if operation.policy is None}
        rows = {line.split("``")[1]: line.split(", ")
                for line in table.FILE.read_text().splitlines() if line.startswith("   ``")}
        for operation, row in rows.items():
            if operation not in public:
                self.assertEqual(["401"] * 4, row[-4:], operation)
