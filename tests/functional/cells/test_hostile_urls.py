"""What somebody who may write cell mappings can make this machine do: ask databases."""

import pathlib
import shutil
import sqlite3
import tempfile

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.cells import engines, errors, mappings, tables
from tests import databases
from tests.functional.cells import cases
from tests.functional.cells.test_scatter_gather import AskingTestCase, instances, one


class TestFiles(AskingTestCase):
    """SQLite opens every file, and writes beside it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-cells-"))
        super().setUp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("allowed", "other"):
            (self.folder / name).mkdir()
            with sqlite3.connect(self.folder / name / "there.sqlite") as connection:
                connection.execute("CREATE TABLE secrets (a)")
            connection.close()

    def options(self):
        return {("cells", "directories"): [str(self.folder / "allowed")]}

    def write_mapping(self, name, url):
        """Write a mapping as nova would: without a look at the URL."""
        with db.write(self.cells.api(self.ctx)) as session:
            session.execute(tables.cell_mappings.insert(), {
                "uuid": f"{name:0>36}", "name": name, "transport_url": "",
                "database_connection": url})

    def test_files_elsewhere_are_all_alike(self):
        other = self.folder / "other"
        for name, path in (("there", other / "there.sqlite"), ("gone", other / "gone.sqlite"),
                           ("text", "/etc/hostname"), ("folder", other)):
            self.assertRaises(errors.InvalidCell, self.cell, name, f"sqlite:///{path}")
            self.write_mapping(name, f"sqlite:///{path}")
        answers, _ = self.asked(instances)
        self.assertEqual(
            dict.fromkeys(("there", "gone", "text", "folder"),
                          "its database_connection makes no sense"), self.reasons(answers))
        self.assertEqual(["there.sqlite"], [path.name for path in other.iterdir()])
        with open(other / "there.sqlite", "rb") as file:
            # Byte 18 of an SQLite file: 1 until somebody had it write ahead.
            self.assertEqual(1, file.read(19)[18])

    def test_the_named_folder(self):
        self.cell("cell1", f"sqlite:///{self.folder}/allowed/there.sqlite")
        self.assertEqual([1], list(self.asked(one)[0].answers.values()))

    def test_the_service_s_own_database(self):
        self.cell("cell1", self.database.settings.connection)
        self.assertEqual([1], list(self.asked(one)[0].answers.values()))


@databases.on_each_database
class TestOddUrls(AskingTestCase):
    """A cell with an odd URL is missing; questions to the others are answered."""

    def test_each_is_missing_and_no_failure(self):
        self.useFixture(fixtures.FakeLogger("placement_core.cells"))
        good = self.cell("good", databases.settings(self.kind).connection)
        odd = (
            "mysql://u@127.0.0.1:99999999/d", "mysql://u@127.0.0.1:0/d",
            "postgresql://u@127.0.0.1:70000/d", "mysql://u@127.0.0.1/d?local_infile=1",
            "mysql://u@127.0.0.1/d?read_default_file=/etc/hostname",
            "mysql://u@127.0.0.1/d?client_flag=x", "mysql://u@127.0.0.1/d?ssl_ca=/etc/%00",
            "mysql://u@127.0.0.1/d?charset=nonsense", "mysql://u@127.0.0.1/d?ssl_ca=/etc/hostname",
            "mysql://u@127.0.0.1/d?connect_timeout=x", "mysql://u@a..b/d",
            "mysql://u@" + "h" * 300 + "/d", "postgresql://u@127.0.0.1:1/d?sslmode=odd",
            "{scheme}://{username}@{nowhere}/d", "mysql://u@127.0.0.1:1/d?use_unicode=",
            "postgresql://u@127.0.0.1:1/d?port=1,2,3", "sqlite:////etc/hostname",
        )
        with db.write(self.cells.api(self.ctx)) as session:
            for number, url in enumerate(odd):
                session.execute(tables.cell_mappings.insert(), {
                    "uuid": f"{number:036}", "name": f"odd{number}", "transport_url": "",
                    "database_connection": url})
        answers, _ = self.asked(one)
        self.assertEqual({good.uuid: 1}, answers.answers)
        self.assertEqual({f"odd{number}" for number in range(len(odd))},
                         {*self.reasons(answers)})
        # They are managed like every other cell.
        for number in range(len(odd)):
            mappings.update(self.ctx, self.cells, f"odd{number}", {"disabled": True})
            mappings.delete(self.ctx, self.cells, f"odd{number}")
        self.assertEqual(["good"], [cell.name for cell in self.cells.cells(self.ctx)])


class TestEngines(AskingTestCase):
    """Engines are kept for the cells that stand."""

    def engines(self):
        return len(engines.SHARED)

    def test_refused_moved_and_removed_cells_leave_none(self):
        cell = self.cell("cell1")
        self.asked(one)
        self.assertEqual(1, self.engines())
        for number in range(20):
            self.assertRaises(errors.InvalidCell, self.cell, f"bad{number}",
                              f"mysql://u@h/d{number}?local_infile=1")
            self.assertRaises(errors.DuplicateCell, self.cell, "cell1", f"mysql://u@h/d{number}")
            mappings.update(self.ctx, self.cells, "cell1", {
                "database_connection": f"sqlite:////nonexistent/{number}.sqlite"})
            self.asked(one)
        self.assertEqual(1, self.engines())
        mappings.delete(self.ctx, self.cells, cell.uuid)
        self.asked(one)
        self.assertEqual(0, self.engines())

    def test_connections_to_a_removed_cell_are_closed(self):
        cell = self.cell("cell1", cases.bare("sqlite", "cell"))
        self.addCleanup(cases.drop, cell.database_connection)
        sqlite3.connect(cell.database_connection.removeprefix("sqlite:///")).close()
        self.asked(one)
        pool = self.cells.of(self.ctx, cell).database.autocommit.pool
        self.assertEqual(1, pool.checkedin())
        mappings.delete(self.ctx, self.cells, cell.uuid)
        self.cells.cells(self.ctx)
        self.assertNotEqual(pool, self.cells.of(self.ctx, cell).database.autocommit.pool)
        self.assertEqual(0, pool.checkedin())


@databases.on_each_database
class TestTemplates(AskingTestCase):
    """Nova's templated URLs are filled from the reader's own connection."""

    def test_a_cell_on_the_reader_s_server(self):
        own = sa.make_url(databases.settings(self.kind).connection)
        if self.kind == "sqlite":
            self.template_source = f"sqlite:///{own.database.lstrip('/')}"
            template = "{scheme}:////{path}"
        else:
            port = own.port or {"postgresql": 5432, "mysql": 3306}[self.kind]
            self.template_source = own.set(port=port).render_as_string(hide_password=False)
            template = "{scheme}://{username}@{hostname}:{port}/{path}?{query}"
        self.cells = self.databases()
        cell = self.cell("cell1", template)
        self.assertEqual(template, self.rows("cell_mappings")[0]["database_connection"])
        self.assertIn("{scheme}", cell.masked_connection)
        answers, _ = self.asked(one)
        self.assertEqual({cell.uuid: 1}, dict(answers.answers), self.reasons(answers))

    def test_a_cell_whose_template_cannot_be_filled(self):
        log = self.useFixture(fixtures.FakeLogger("placement_core.cells"))
        self.template_source = "mysql://nova@h/nova"
        self.cells = self.databases()
        with db.write(self.cells.api(self.ctx)) as session:
            session.execute(tables.cell_mappings.insert(), {
                "uuid": f"{1:036}", "name": "cell1", "transport_url": "",
                "database_connection": "{scheme}://{username}:{password}@{hostname}:{port}/d"})
        answers, _ = self.asked(one)
        self.assertEqual({"cell1": "its database_connection makes no sense"},
                         self.reasons(answers))
        self.assertIn("[cells] template_connection", log.output)


class TestSecretsOfTemplates(AskingTestCase):
    """What fills a template is not told to whoever writes one, nor to a server of theirs."""

    template_source = "postgresql://nova:s3cr3t@db.example.org/nova?sslmode=require"

    def refusal(self, url):
        refusal = str(self.assertRaises(errors.InvalidCell, self.cell, "cell1", url))
        self.assertNotIn("s3cr3t", refusal)
        return refusal

    def test_errors_have_no_value(self):
        log = self.useFixture(fixtures.FakeLogger())
        templates = (
            "mysql://u@{password}/x", "mysql://u@h/d?{password}=1", "{password}://h/d",
            "mysql+{password}://h/d", "mysql://u@h:{password}/d", "oracle://{hostname}/d",
            "mysql+{hostname}://h/d", "mysql://u:{password}@h:x/d", "mysql://u@h/d?{hostname}=1",
            "sqlite://{username}:{password}@/")
        for template in templates:
            self.assertNotIn("db.example.org", self.refusal(template))
        # What its driver refuses is noticed when it is connected to.
        templates += ("mysql://u@{hostname}/d?connect_timeout=x",)
        for number, template in enumerate(templates):
            with db.write(self.cells.api(self.ctx)) as session:
                session.execute(tables.cell_mappings.insert(), {
                    "uuid": f"{number:036}", "name": f"cell{number}", "transport_url": "",
                    "database_connection": template})
        answers, _ = self.asked(one)
        self.assertEqual(len(templates), len(answers.missing))
        self.assertNotIn("s3cr3t", f"{answers}{log.output}")
        self.assertNotIn("db.example.org", f"{answers}{log.output}")

    def test_a_login_stays_on_its_hosts(self):
        for place in ("evil.example.net/x", "{hostname}/x?hostaddr=10.6.6.6", "/x?host=evil"):
            self.assertIn("[cells] database_hosts", self.refusal(
                f"postgresql://{{username}}:{{password}}@{place}"))
        self.assertIn("[cells] database_hosts", self.refusal("mysql://{username}@evil/x"))
        self.cell("cell1", "{scheme}://{username}:{password}@{hostname}/cell1?{query}")
        self.cell("cell2", "{scheme}://other:own@elsewhere/{path}?{query}")

    def test_a_source_that_is_no_database(self):
        self.template_source = "rabbit://nova:s3cr3t@db.example.org/nova"
        self.cells = self.databases()
        self.refusal("mysql://{username}:{password}@{hostname}/x")
        self.refusal("{scheme}://{username}:{password}@{hostname}/x")


class TestListedHosts(AskingTestCase):
    template_source = TestSecretsOfTemplates.template_source

    def options(self):
        return {("cells", "database_hosts"): ["elsewhere"]}

    def test_a_login_may_go_there(self):
        self.cell("cell1", "{scheme}://{username}:{password}@elsewhere/x")
        refusal = str(self.assertRaises(
            errors.InvalidCell, self.cell, "cell2", "{scheme}://{username}@{hostname}/x"))
        self.assertIn("[cells] database_hosts", refusal)
        self.assertNotIn("db.example.org", refusal)
