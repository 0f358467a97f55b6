"""What a policy rule takes, in words."""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import rule_texts
from tests import base


class TestDescribe(base.TestCase):
    def describe(self, **rules: str) -> str:
        return rule_texts.describe("it", policy.Rules.from_dict(rules))

    def test_rules(self) -> None:
        for rule, expected in (
            ("role:admin", "It takes the role admin."),
            ("role:admin or role:service or role:admin", "It takes the role admin or service."),
            ("rule:boss or role:x", "It takes the role admin or x."),
            ("role:reader and project_id:%(project_id)s",
             "It takes the role reader and a token for the project."),
            ("project_id:%(project_id)s or system_scope:all",
             "It takes a token for the project, or a token for the system."),
            ("role:a and (role:b or role:c)", "It takes the role a and (role b or role c)."),
            ("role:a and not role:b", "It takes the role a and not role:b."),
            ("is_admin:True", "It takes is_admin:True."),
            ("role:admin or rule:it", "It takes the role admin."),
            ("!", "The policy lets nobody do it."),
            ("rule:unknown", "The policy lets nobody do it."),
            ("role:admin and !", "It takes the role admin and what nobody has."),
            ("@", ""),
            ("role:admin or @", ""),
        ):
            self.assertEqual(expected, self.describe(it=rule, boss="role:admin"), rule)
