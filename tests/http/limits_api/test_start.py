"""A service that cannot work does not start: one line names option and value."""

from __future__ import annotations

from placement_core import app, errors, services
from tests import databases
from tests.http import base


class TestStart(base.base.TestCase):
    def conf(self, **limits: str) -> object:
        group = "catalog" if "catalog" in limits else "limits"
        options = {(group, "driver" if name == "catalog" else name): value
                   for name, value in limits.items()}
        return base.configuration(databases.settings("sqlite").connection, options)

    def assert_no_start(self, line: str, **options: str) -> None:
        error = self.assertRaises(errors.ConfigurationError, app.make_app, self.conf(**options))
        self.assertRegex(str(error), line)
        self.assertNotIn("\n", str(error))

    def test_drivers_that_are_not_there(self) -> None:
        self.assert_no_start(
            r"^\[catalog\] driver = nobody: no such driver; installed: .*local", catalog="nobody")
        self.assert_no_start(
            r"^\[limits\] driver = nobody: no such driver; installed: .*local", driver="nobody")
        for option in ("enforcement_model", "advertised_model"):
            self.assert_no_start(
                rf"^\[limits\] {option} = Flat: no such driver; installed: flat, ",
                **{option: "Flat"})

    def test_defaults(self) -> None:
        parts = services.build(self.conf())
        self.assertTrue(parts.catalog.local)
        self.assertTrue(parts.limits.transactional)
        self.assertEqual("flat", parts.model.name)
        self.assertIs(parts.model, parts.advertised_model)

    def test_trees_that_the_model_cannot_read(self) -> None:
        from placement_core.catalog import domains, projects

        conf = self.conf(enforcement_model="strict_two_level")
        parts = services.build(conf)
        ctx = parts.context()
        above = domain = domains.create(ctx, name="cloud").id
        for level in range(3):
            app.make_app(conf)
            above = projects.create(
                ctx, name=f"p{level}", domain_id=domain, parent_id=above).id
        error = self.assertRaises(errors.ConfigurationError, app.make_app, conf)
        self.assertRegex(
            str(error), r"^\[limits\] enforcement_model = strict_two_level: .* at most 3 levels"
            ".* has one of 4$")
        conf.set_override("enforcement_model", "tree", "limits")
        app.make_app(conf)
