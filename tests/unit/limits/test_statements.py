from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from placement_core.limits import hierarchy, limits, registered, users
from tests import base


def _find_statements(module):
    """Yield the statements of a module, with their names."""
    for name, value in vars(module).items():
        for statement in value.values() if isinstance(value, dict) else [value]:
            if isinstance(statement, sa.Executable):
                yield f"{module.__name__}.{name}", statement


class TestStatements(base.TestCase):

    def test_a_list_is_one_parameter(self):
        """Clients send lists of any length; a statement of PostgreSQL has 65,535 parameters."""
        statements = [
            item for module in (hierarchy, limits, registered, users)
            for item in _find_statements(module)]
        self.assertIn("placement_core.limits.users._TAKEN", dict(statements))
        for name, statement in statements:
            self.assertNotIn(
                "POSTCOMPILE", str(statement.compile(dialect=postgresql.dialect())), name)
