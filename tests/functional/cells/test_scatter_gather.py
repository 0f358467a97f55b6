"""Asking cells: all at once, with one deadline, whatever state they are in."""

import os
import socket
import threading
import time
import traceback

import fixtures
import sqlalchemy as sa

from placement_core import db, errors
from placement_core.cells import cell_tables, engines
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from tests import databases, races
from tests.functional.cells import cases
from tests.functional.db import proxy
from tests.http import base as http_base

_PORTS = {"postgresql": 5432, "mysql": 3306}
_SECRET = "correct-horse"


def one(ctx, _cell):
    """Ask a database for the number 1."""
    with db.read_once(ctx) as session:
        return session.execute(sa.select(sa.literal(1))).scalar_one()


def instances(ctx, _cell):
    """Ask a database for a table of nova's."""
    with db.read_once(ctx) as session:
        return session.execute(sa.select(cell_tables.instances.c.uuid)).all()


def at(url, place):
    """Return the URL with another address."""
    return sa.make_url(url).set(host=place[0], port=place[1]).render_as_string(
        hide_password=False)


class AskingTestCase(cases.CellsTestCase):
    timeout = 2

    def reasons(self, answers):
        return {each.name: each.reason for each in answers.missing}

    def asked(self, question=one, cells=None):
        """Ask; return what was said and how long it took."""
        started = time.monotonic()
        answers = self.cells.scatter_gather(self.ctx, question, cells)
        return answers, time.monotonic() - started


class TestAtOnce(AskingTestCase):
    def test_the_slowest_is_waited_for_not_the_sum(self):
        found = [self.cell(f"cell{number}") for number in range(20)]

        def slowly(_ctx, cell):
            time.sleep(0.3)
            return cell.name

        answers, took = self.asked(slowly)
        self.assertEqual({each.uuid: each.name for each in found}, answers.answers)
        self.assertEqual([], list(answers.missing))
        self.assertLess(took, 3)  # One after the other, it would take twice as long.
        self.assertEqual({each.name for each in found}, set(answers.seconds))
        self.assertTrue(all(0.3 <= each < 2 for each in answers.seconds.values()))

    def test_one_deadline_for_all(self):
        for number in range(4):
            self.cell(f"cell{number}")
        ended = threading.Event()
        self.addCleanup(ended.set)

        def some_hang(_ctx, cell):
            return cell.name if cell.name == "cell0" else ended.wait(30)

        answers, took = self.asked(some_hang)
        self.assertEqual(["cell0"], list(answers.answers.values()))
        self.assertEqual(
            dict.fromkeys(("cell1", "cell2", "cell3"), "no answer within 2 seconds"),
            self.reasons(answers))
        self.assertTrue(1.9 < took < 4, took)
        # On a busy machine its thread may begin late.
        self.assertTrue(0.5 < answers.seconds["cell3"] < 4, answers.seconds)

    def test_only_some(self):
        self.cell("cell1")
        wanted = self.cell("cell2")
        answers, _ = self.asked(lambda _ctx, cell: cell.name, [wanted])
        self.assertEqual({wanted.uuid: "cell2"}, answers.answers)
        answers, _ = self.asked(one, [])
        self.assertEqual({}, answers.answers)

    def test_disabled_ones_and_cell0_count(self):
        self.cell("cell0", uuid="00000000-0000-0000-0000-000000000000")
        self.cell("old", disabled=True)
        answers, _ = self.asked(lambda _ctx, cell: cell.name)
        self.assertEqual({"cell0", "old"}, set(answers.answers.values()))

    def test_a_new_cell_is_asked_at_once(self):
        self.cell("cell1")
        self.asked()
        self.cell("cell2")
        self.assertEqual({"cell1", "cell2"}, set(self.asked()[0].seconds))

    def test_a_defect_of_the_question_is_no_missing_cell(self):
        self.cell()
        self.assertRaises(
            ZeroDivisionError, self.cells.scatter_gather, self.ctx, lambda *_: 1 // 0)

    def test_each_has_a_context_of_its_own(self):
        self.cell("here", self.database.settings.connection)
        self.assertIs(self.ctx, self.cells.of(self.ctx, self.cells.cells(self.ctx)[0]))
        with db.write(self.ctx):
            # Also inside of a transaction, whose connection no other thread may use.
            answers, _ = self.asked(lambda ctx, _cell: (ctx is self.ctx, one(ctx, _cell)))
        self.assertEqual([(False, 1)], list(answers.answers.values()))

    def test_pools_are_shared(self):
        cell = self.cell()
        self.assertIs(self.cells.of(self.ctx, cell).database,
                      self.databases().of(self.ctx, cell).database)


class TestTooManyQuestions(AskingTestCase):
    """A cell that hangs costs a bounded number of threads."""

    timeout = 1

    def questions(self):
        """Return how many threads ask a cell; databases are watched by others."""
        return sum(thread.name.startswith("cell ") for thread in threading.enumerate())

    def test_it_is_named_at_once_and_comes_back(self):
        self.cell("cell1")
        self.cell("cell2")
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def hangs(_ctx, cell):
            return cell.name == "cell2" or go_on.wait(60)

        before = self.questions()
        races.run(*(lambda: self.cells.scatter_gather(self.context(), hangs) for _ in range(8)))
        for _ in range(5):
            answers, took = self.asked(hangs)
            self.assertLess(took, self.timeout)
            self.assertEqual(
                {"cell1": "too many earlier questions still wait for its answer"},
                self.reasons(answers))
            self.assertEqual([True], list(answers.answers.values()))
        self.assertEqual(before + 8, self.questions())
        go_on.set()
        for _ in range(100):
            if self.questions() == before:
                break
            time.sleep(0.05)
        self.assertEqual({}, self.reasons(self.asked(hangs)[0]))

    def test_many_questions_to_one_that_answers(self):
        self.cell()

        def play():
            return self.cells.scatter_gather(self.context(), lambda *_: time.sleep(0.3))

        outcomes = races.run(*(play for _ in range(40)))
        self.assertEqual([()] * 40, [tuple(each.missing) for each in outcomes])


@databases.on_each_database
class TestDown(AskingTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.cells"))

    def on_server(self):
        if self.kind == "sqlite":
            self.skipTest("an SQLite database has no server")
        url = databases.settings(self.kind).connection
        made = sa.make_url(url)
        return url, (made.host, made.port or _PORTS[self.kind])

    def test_it_goes_down_and_comes_back(self):
        url, server = self.on_server()
        between = proxy.Proxy(server, b"never sent")
        self.addCleanup(between.close)
        self.cell("far", at(url, between.address))
        self.assertEqual([1], list(self.asked()[0].answers.values()))
        between.drop_all()
        # What died while it was idle is no reason to do without a cell.
        self.assertEqual([1], list(self.asked()[0].answers.values()))
        between.refusing = True
        between.drop_all()
        answers, took = self.asked()
        self.assertEqual({"far": "its database does not answer"}, self.reasons(answers))
        self.assertLess(took, 2)
        between.refusing = False
        self.assertEqual([1], list(self.asked()[0].answers.values()))
        self.assertEqual(1, self.log.output.count("is missing"))
        self.assertIn("answers again", self.log.output)

    def test_a_server_that_swallows_everything(self):
        url, _ = self.on_server()
        with socket.create_server(("127.0.0.1", 0)) as hole:
            self.cell("hole", at(url, hole.getsockname()))
            before = {*threading.enumerate()}
            answers, took = self.asked()
            self.assertIn("hole", self.reasons(answers))
            self.assertAlmostEqual(2, took, delta=0.8)
            waiting = {*threading.enumerate()} - before
            # Others watch the databases.
            for thread in (each for each in waiting if each.name.startswith("cell ")):
                thread.join(5)
                self.assertFalse(thread.is_alive(), thread)

    def test_no_such_server_or_login(self):
        url, _ = self.on_server()
        with socket.create_server(("127.0.0.1", 0)) as gone:
            place = gone.getsockname()
        wrong = sa.make_url(url).set(username="nobody", password=_SECRET)
        self.cell("gone", at(wrong, place))
        self.cell("wrong", wrong.set(database="nosuch").render_as_string(hide_password=False))
        answers, _ = self.asked()
        self.assertEqual({"gone", "wrong"}, {*self.reasons(answers)})
        self.assertNotIn(_SECRET, f"{answers}{self.log.output}")

    def test_no_such_table(self):
        self.cell("cell1", databases.settings(self.kind).connection)
        answers, _ = self.asked(instances)
        self.assertEqual({"cell1": "its database refuses the question"},
                         self.reasons(answers))


class TestUrls(AskingTestCase):
    def test_what_makes_no_sense_is_named_by_cell(self):
        log = self.useFixture(fixtures.FakeLogger("placement_core.cells"))
        for number, url in enumerate((
            "nonsense", f"oracle://u:{_SECRET}@h/d", "sqlite://", "",
            f"{{scheme}}://u:{_SECRET}@{{hostname}}:{{port}}/cell",
            f"mysql://u:{_SECRET}@h:port/d", f"mysql+os://u:{_SECRET}@h/d",
            f"mysql://u:{_SECRET}@h/d?plugin=no", "sqlite:////d?timeout=abc",
            f"sqlite+aiosqlite:////d?password={_SECRET}",
        )):
            cell = Cell(number, f"uuid{number}", f"cell{number}", "", url, False)
            error = self.assertRaises(
                errors.ConfigurationError, self.cells.of, self.ctx, cell)
            self.assertIn(f"cell{number}", str(error))
            self.assertNotIn("placement_database", str(error))
            self.assertNotIn(_SECRET, str(error))
            answers, _ = self.asked(one, [cell])
            self.assertEqual({cell.name: "its database_connection makes no sense"},
                             self.reasons(answers))
        self.assertNotIn(_SECRET, log.output)

    def test_a_certificate_that_is_not_there(self):
        self.cell("s", "mysql://u@127.0.0.1:1/e?ssl_ca=/nonexistent")
        self.assertEqual({"s": "its database_connection makes no sense"},
                         self.reasons(self.asked()[0]))

    def test_of_the_api_database(self):
        for url in ("nonsense", f"oracle://u:{_SECRET}@h/d"):
            error = self.assertRaises(
                errors.ConfigurationError, CellDatabases,
                http_base.configuration(self.database.settings.connection, {
                    ("api_database", "connection"): url}))
            self.assertIn("[api_database] connection", str(error))
            self.assertNotIn(_SECRET, str(error))

    def test_the_api_database_may_be_named_twice(self):
        self.api_url = self.database.settings.connection
        self.assertIs(self.ctx, self.databases().api(self.ctx))

    def test_an_sqlite_file_is_not_made_by_asking(self):
        url = cases.bare("sqlite", "cell")
        self.addCleanup(cases.drop, url)
        self.cell("cell1", url)
        self.assertEqual({"cell1": "its database does not answer"},
                         self.reasons(self.asked()[0]))
        self.assertFalse(os.path.exists(url.removeprefix("sqlite:///")))

    def test_nothing_shows_a_password(self):
        cell = self.cell("cell1", f"postgresql://u:{_SECRET}@h/d",
                         transport_url=f"rabbit://u:{_SECRET}@h:1")
        self.assertNotIn(
            _SECRET, f"{cell} {cell!r} {cell.masked_connection} {cell.masked_transport}")


@databases.on_each_database
class TestForks(AskingTestCase):
    def test_a_child_asks_too(self):
        self.cell("cell1", databases.settings(self.kind).connection)
        self.assertEqual([1], list(self.asked()[0].answers.values()))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ctx = Context(self.database)
                for _ in range(3):
                    answers = self.cells.scatter_gather(ctx, one)
                status = int(list(answers.answers.values()) != [1])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        self.assertEqual([1], list(self.asked()[0].answers.values()))
        _, status = os.waitpid(child, 0)
        self.assertEqual(0, status)
        self.assertEqual([1], list(self.asked()[0].answers.values()))

    def test_a_child_does_not_wait_for_its_parent(self):
        cell = self.cell()
        database = self.cells.of(self.ctx, cell).database
        with engines.SHARED.query_under_way(database):
            child = os.fork()
            if child == 0:
                os._exit(engines.SHARED.count_late(database, -1))
            self.assertEqual(1, engines.SHARED.count_late(database, -1))
        self.assertEqual(0, os.waitpid(child, 0)[1])
