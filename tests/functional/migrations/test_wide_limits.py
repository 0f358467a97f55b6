"""Revision 0012: ids and descriptions of limits become as long as Keystone's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import command

from placement_core.migrations import revisions, sync, upgrades
from placement_core.migrations.versions import managers
from tests import databases
from tests.functional.migrations import test_sync

_REGISTERED = (
    "INSERT INTO registered_limits "
    "(id, uuid, service_id, region_key, resource_name, default_limit, description) "
    "VALUES (1, '{uuid}', 'compute', '', 'servers', 5, '{description}')")
_LIMIT = (
    "INSERT INTO limits (id, uuid, registered_limit_id, node_id, is_domain, resource_limit) "
    "VALUES (1, 'b', 1, 'project', false, 5)")


@databases.on_each_database
class TestWideLimitsMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            command.upgrade(upgrades.alembic_config(connection), managers.revision)
        self.run_sql(_REGISTERED.format(uuid="a", description="short"), _LIMIT)
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.run_sql(
            "UPDATE registered_limits "
            f"SET uuid = '{'a' * 64}', description = '{'d' * 4000}' WHERE uuid = 'a'")
        with engine.connect() as connection:
            uuid, description, limits = connection.execute(sa.text(
                "SELECT uuid, description, "
                "(SELECT count(*) FROM limits l WHERE l.registered_limit_id = r.id) "
                "FROM registered_limits r")).one()
        self.assertEqual(("a" * 64, "d" * 4000, 1), (uuid, description, limits))
