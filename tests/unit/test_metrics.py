"""What is counted, in which series, and where from."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import fixtures

from placement_core import errors, metrics
from placement_core.monitoring.state import STATE
from tests import base, scraping


class MetricsTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())

    def numbers(self, name: str) -> scraping.Numbers:
        return scraping.counted(lambda: scraping.shown()[1], name)


class TestOff(MetricsTestCase):
    def test_nothing_is_counted_before_the_start(self) -> None:
        metrics.count_claim("held")
        metrics.count_decision("audit", "allowed")
        metrics.count_counting("placement", "projects", ["down"], {"down": 1.0})
        metrics.count_failed_counting("placement", "projects")
        metrics.count_request(("placement", "GET /traits"), "200 OK", 0.1)
        metrics.count_refusal("placement.undefined_code", "404")
        metrics.set_room({("VCPU", "free"): 5})
        metrics.set_stranded({"VCPU:4": 3}, {"VCPU": {"MEMORY_MB": 2}})
        metrics.observe_gang("claimed", 1)
        metrics.observe_write_group(5, 2)
        metrics.observe_commit(0.1)
        metrics.observe_lock_wait(0.1)
        metrics.count_retry("deadlock")
        metrics.observe_index_refresh("usage", "load", 0.1)
        metrics.count_failed_index_refresh("usage")
        metrics.set_quota({"VCPU": metrics.QuotaFill(0.9, {80: 3})})
        metrics.set_process(in_flight=1, waiting=1, most_requests=1, connections={}, threads=1)
        metrics.set_audit(3)
        metrics.start()
        counted = scraping.numbers(scraping.shown()[1])
        self.assertEqual({}, {name: number for name, number in counted.items() if number})

    def test_nothing_is_loaded(self) -> None:
        subprocess.run([sys.executable, "-c", (
            "import sys\n"
            "from placement_core import app, metrics\n"
            "metrics.count_claim('held')\n"
            "sys.exit('prometheus_client' in sys.modules)")], check=True)


class TestSeries(MetricsTestCase):
    def setUp(self) -> None:
        super().setUp()
        metrics.start()

    def test_starting_again_forgets_nothing(self) -> None:
        metrics.count_claim("held")
        metrics.start()
        metrics.count_claim("held")
        self.assertEqual({("held",): 2}, self.numbers("claims_total"))

    def test_a_count(self) -> None:
        metrics.count_counting(
            "placement", "projects", (), {"api_database": 0.25, "placement": 0.5})
        metrics.count_counting("legacy_cell", "projects", ["a", "b"], {"api_database": 0.25})
        metrics.count_failed_counting("legacy_cell", "projects")
        self.assertEqual({
            ("complete", "projects", "placement"): 1, ("partial", "projects", "legacy_cell"): 1,
            ("failed", "projects", "legacy_cell"): 1}, self.numbers("usage_counts_total"))
        self.assertEqual({("a",): 1, ("b",): 1}, self.numbers("missing_cells_total"))
        self.assertEqual({("api_database",): 0.5, ("placement",): 0.5},
                         self.numbers("usage_source_seconds_sum"))
        self.assertEqual({("api_database",): 2, ("placement",): 1},
                         self.numbers("usage_source_seconds_count"))

    def test_names_are_bounded(self) -> None:
        for number in range(300):
            name = f"cell{number}"
            metrics.count_counting("legacy_cell", "projects", [name], {name: 1.0})
        metrics.count_counting("legacy_cell", "projects", ["cell0"], {})
        missing = self.numbers("missing_cells_total")
        self.assertEqual(
            (201, 100, 2), (len(missing), missing["other",], missing["cell0",]))
        self.assertEqual(201, len(self.numbers("usage_source_seconds_count")))

    def test_what_clients_invent_makes_no_series(self) -> None:
        for reason in ("404 Not Found", "404 Invented", "404", "4"):
            metrics.count_request(("limits", "none"), reason, 0.1)
        self.assertEqual({("limits", "4xx"): 4}, self.numbers("http_request_seconds_count"))
        self.assertEqual({("limits", "none", "4xx"): 4},
                         self.numbers("http_operation_seconds_count"))

    def test_sums_of_requests_are_those_of_their_operations(self) -> None:
        for api, operation, status, seconds in (
                ("limits", "GET /v3/limits", "200 OK", 0.1),
                ("limits", "POST /v3/limits", "201 Created", 0.2),
                ("limits", "POST /v3/limits", "409 Conflict", 40.0),
                ("placement", "GET /", "200 OK", 0.0005)):
            metrics.count_request((api, operation), status, seconds)
        self.assertEqual(
            {("limits", "2xx"): 0.3, ("limits", "4xx"): 40.0, ("placement", "2xx"): 0.0005},
            {labels: round(seconds, 6)
             for labels, seconds in self.numbers("http_request_seconds_sum").items()})
        text = scraping.shown()[1]
        for api, status, bound, count in (
                ("limits", "2xx", "0.025", 0), ("limits", "2xx", "0.1", 1),
                ("limits", "2xx", "0.25", 2), ("limits", "4xx", "30.0", 0),
                ("limits", "4xx", "+Inf", 1), ("placement", "2xx", "0.0005", 1)):
            self.assertIn(
                f'http_request_seconds_bucket{{api="{api}",le="{bound}",status="{status}"}} '
                f"{count}.0\n", text)

    def test_no_series_tells_when_another_one_was_created(self) -> None:
        metrics.count_request(("limits", "none"), "200 OK", 0.1)
        self.assertNotIn("_created", scraping.shown()[1])

    def test_short_round_trips_wait_for_no_lock(self) -> None:
        for seconds in (0.0, 0.004, 0.005, 1.0):
            metrics.observe_lock_wait(seconds)
        self.assertEqual({(): 2}, self.numbers("database_lock_wait_seconds_count"))

    def test_room(self) -> None:
        """What is gone is 0."""
        metrics.set_room({("VCPU", "free"): 5, ("CUSTOM_GPU", "free"): 1})
        metrics.set_room({("VCPU", "free"): 2**70})
        self.assertEqual({("VCPU", "free"): 2.0**70, ("CUSTOM_GPU", "free"): 0},
                         self.numbers("room"))
        self.assertLess(time.time() - 60, self.numbers("room_timestamp_seconds")[()])

    def test_room_of_many_classes(self) -> None:
        """Standard classes come first, and what has a series keeps it."""
        metrics.set_room({(f"CUSTOM_{number}", "free"): 1 for number in range(50)})
        metrics.set_room({
            **{(f"CUSTOM_A{number}", "free"): 2 for number in range(50)}, ("VCPU", "free"): 3,
            ("CUSTOM_7", "free"): 4})
        room = self.numbers("room")
        self.assertEqual((60, 3, 4, 0), (
            len(room), room["VCPU", "free"], room["CUSTOM_7", "free"], room["CUSTOM_8", "free"]))

    def test_stranded(self) -> None:
        """What is gone is 0; a class is a cause from the start. Labels are sorted by name."""
        metrics.set_stranded(
            {"VCPU:4": 3}, {"VCPU": {"MEMORY_MB": 2}, "PGPU": {"PGPU:units": 1}})
        metrics.set_stranded({"VCPU:4": 5}, {"VCPU": {"VCPU": 7}, "DISK_GB": {}})
        self.assertEqual({("VCPU:4",): 5}, self.numbers("shape_fits"))
        self.assertEqual(
            {("VCPU", "VCPU"): 7, ("MEMORY_MB", "VCPU"): 0, ("PGPU", "PGPU"): 0,
             ("PGPU:units", "PGPU"): 0, ("DISK_GB", "DISK_GB"): 0}, self.numbers("stranded"))
        self.assertLess(time.time() - 60, self.numbers("stranded_timestamp_seconds")[()])

    def test_many_shapes(self) -> None:
        """The first ones have series."""
        metrics.set_stranded({f"VCPU:{number}": number for number in range(50, 0, -1)}, {})
        self.assertEqual({(f"VCPU:{number}",): number for number in range(50, 30, -1)},
                         self.numbers("shape_fits"))

    def test_many_causes(self) -> None:
        """The first ones have series, and keep them; others are added up."""
        causes = [f"C{number}" for number in range(9)]
        metrics.set_stranded({}, {"VCPU": dict.fromkeys(causes, 2)})
        first = {("VCPU", "VCPU"): 0, **{(cause, "VCPU"): 2 for cause in causes[:4]}}
        self.assertEqual({**first, ("other", "VCPU"): 10}, self.numbers("stranded"))
        metrics.set_stranded({}, {"VCPU": dict.fromkeys(reversed(causes), 3) | {"VCPU": 1}})
        self.assertEqual(
            {("VCPU", "VCPU"): 1, **{(cause, "VCPU"): 3 for cause in causes[:4]},
             ("other", "VCPU"): 15}, self.numbers("stranded"))

    def test_stranded_of_many_classes(self) -> None:
        """Standard classes come first, and what has a series keeps it."""
        metrics.set_stranded({}, {f"CUSTOM_{number}": {} for number in range(9)})
        metrics.set_stranded({}, {
            **{f"CUSTOM_A{number}": {"VCPU": 1} for number in range(9)}, "VCPU": {"VCPU": 3},
            "CUSTOM_7": {"CUSTOM_7": 4}})
        numbers = self.numbers("stranded")
        self.assertEqual((10, 3, 4, 0), (
            len(numbers), numbers["VCPU", "VCPU"], numbers["CUSTOM_7", "CUSTOM_7"],
            numbers["CUSTOM_8", "CUSTOM_8"]))

    def test_most_series_of_what_is_stranded(self) -> None:
        names = [f"C{number}" for number in range(30)]
        metrics.set_stranded(
            dict.fromkeys(names, 1), {name: dict.fromkeys(names, 1) for name in names})
        self.assertEqual((20, 10 * 6), (
            len(self.numbers("shape_fits")), len(self.numbers("stranded"))))

    def test_quota(self) -> None:
        """What is gone is 0."""
        metrics.set_quota({"VCPU": metrics.QuotaFill(0.9, {80: 3, 95: 0}),
                           "DISK": metrics.QuotaFill(1.0, {80: 2, 95: 1})})
        metrics.set_quota({"VCPU": metrics.QuotaFill(0.5, {80: 1, 95: 0})})
        self.assertEqual({("VCPU",): 0.5, ("DISK",): 0.0}, self.numbers("quota_fullest_ratio"))
        self.assertEqual(
            {("80", "VCPU"): 1, ("95", "VCPU"): 0, ("80", "DISK"): 0, ("95", "DISK"): 0},
            self.numbers("quota_projects_over"))
        self.assertLess(time.time() - 60, self.numbers("quota_timestamp_seconds")[()])
        metrics.set_quota({f"r{number}": metrics.QuotaFill(0.5, {80: 1}) for number in range(99)})
        self.assertEqual(60, len(self.numbers("quota_fullest_ratio")))
        self.assertEqual(62, len(self.numbers("quota_projects_over")))

    def test_audit(self) -> None:
        metrics.set_audit(3)
        self.assertEqual({(): 3}, self.numbers("audit_findings"))
        self.assertLess(time.time() - 60, self.numbers("audit_timestamp_seconds")[()])

    def test_indexes(self) -> None:
        metrics.observe_index_refresh("capacity", "load", 0.5)
        metrics.observe_index_refresh("capacity", "update", 0.25)
        metrics.count_failed_index_refresh("usage")
        self.assertEqual({("capacity", "load"): 0.5, ("capacity", "update"): 0.25},
                         self.numbers("index_refresh_seconds_sum"))
        self.assertEqual({("usage",): 1}, self.numbers("index_refresh_failures_total"))

    def test_state(self) -> None:
        state = {"managers": {(): 2}, "leases": {("ACTIVE",): 3, ("ERROR",): 0}}
        numbers = scraping.numbers(scraping.shown(lambda: state)[1])
        self.assertEqual(
            {("managers",): 2, ("leases", "ACTIVE"): 3, ("leases", "ERROR"): 0},
            {key: number for key, number in numbers.items() if key[0] in STATE})

    def test_removed_rows(self) -> None:
        for table, rows in (("users", 2), ("users", 3), ("projects", 0)):
            metrics.count_removed_rows(table, rows)
        self.assertEqual({("users",): 5}, self.numbers("removed_rows_total"))

    def test_odd_names(self) -> None:
        odd = 'a "cell"\\ of\nmine \N{PILE OF POO}'
        metrics.count_counting("legacy_cell", "projects", [odd], {})
        self.assertEqual({(odd,): 1}, self.numbers("missing_cells_total"))


class TestProcesses(MetricsTestCase):
    def test_one_of_several_does_not_speak_for_all(self) -> None:
        metrics.start()
        status, text = scraping.shown(**{"wsgi.multiprocess": True})
        self.assertEqual(("503 Service Unavailable", 1), (status, text.count("\n")))
        self.assertIn(metrics.FOLDER_VARIABLE, text)
        self.assertEqual("200 OK", scraping.shown(**{"wsgi.multiprocess": False})[0])

    def test_folder_that_cannot_be_used(self) -> None:
        for folder in ("/nowhere/at/all", "", __file__):
            with fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE, folder):
                error = self.assertRaises(errors.ConfigurationError, metrics.start)
            self.assertIn(f"{metrics.FOLDER_VARIABLE} = {folder}: ", str(error))

    def test_numbers_of_a_manager_that_was_replaced(self) -> None:
        """They are its successor's, also of what is there no more; nothing without one."""
        folder = self.useFixture(fixtures.TempDir()).path
        program = (
            "import sys\n"
            "from placement_core import metrics\n"
            "metrics.start()\n"
            "free = int(sys.argv[1])\n"
            "metrics.set_room({('VCPU', 'free'): free, (f'CUSTOM_{free}', 'free'): 1})\n"
            "metrics.set_quota({f'r{free}': metrics.QuotaFill(1.0, {95: free})})\n"
            "metrics.set_stranded({'VCPU:4': free}, {'VCPU': {f'C{free}': free}})\n"
            "metrics.set_audit(free)\n"
            "print('set', flush=True)\n"
            "sys.stdin.read()")
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE, folder))
        metrics.start()
        for number in (5, 7, 3):
            with subprocess.Popen(
                    [sys.executable, "-c", program, str(number)], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE) as manager:
                self.assertEqual(b"set\n", manager.stdout.readline())
                self.assertEqual({("VCPU", "free"): number, (f"CUSTOM_{number}", "free"): 1},
                                 self.numbers("room"))
                self.assertEqual({(f"r{number}",): 1.0}, self.numbers("quota_fullest_ratio"))
                self.assertEqual({("95", f"r{number}"): number},
                                 self.numbers("quota_projects_over"))
                self.assertEqual({("VCPU:4",): number}, self.numbers("shape_fits"))
                self.assertEqual({("VCPU", "VCPU"): 0, (f"C{number}", "VCPU"): number},
                                 self.numbers("stranded"))
                self.assertEqual({(): number}, self.numbers("audit_findings"))
        for name in ("room", "room_timestamp_seconds", "shape_fits", "stranded",
                     "stranded_timestamp_seconds", "quota_fullest_ratio",
                     "quota_projects_over", "quota_timestamp_seconds", "audit_findings",
                     "audit_timestamp_seconds"):
            self.assertEqual({}, self.numbers(name))

    def test_what_ended_processes_had_in_use(self) -> None:
        """Only processes that live have something in use."""
        folder = self.useFixture(fixtures.TempDir()).path
        program = (
            "import sys\n"
            "from placement_core import metrics\n"
            "metrics.start()\n"
            "metrics.set_process(in_flight=3, waiting=0, most_requests=8, threads=5,\n"
            "    connections={('writer', 'in_use'): 2})\n"
            "metrics.count_claim('held')\n"
            "print('noted', flush=True)\n"
            "sys.stdin.read()")
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, metrics.FOLDER_VARIABLE: folder}) for _ in range(3)]
        for process in processes:
            self.assertEqual(b"noted\n", process.stdout.readline())
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE, folder))
        metrics.start()
        for living in (3, 2, 1, 0):
            numbers = scraping.numbers(scraping.shown()[1])
            self.assertEqual(3, numbers["claims_total", "held"])
            for key, number in ((("http_requests_in_flight",), 3), (("threads",), 5),
                                (("http_requests_limit",), 8),
                                (("database_connections", "writer", "in_use"), 2)):
                self.assertEqual(living * number, numbers.get(key, 0), key)
            if living:
                with processes[living - 1] as process:
                    process.kill()

    def test_two_scrapes_after_a_process_ended(self) -> None:
        """Both remove what it had in use; one of them is faster."""
        folder = self.useFixture(fixtures.TempDir()).path
        program = (
            "from placement_core import metrics\n"
            "metrics.start()\n"
            "metrics.set_process(in_flight=3, waiting=0, most_requests=8, threads=5,\n"
            "    connections={})")
        subprocess.run([sys.executable, "-c", program], check=True,
                       env={**os.environ, metrics.FOLDER_VARIABLE: folder})
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE, folder))
        metrics.start()
        remove = os.remove

        def remove_second(path: str) -> None:
            remove(path)
            remove(path)

        with fixtures.MonkeyPatch("os.remove", remove_second):
            self.assertEqual({}, self.numbers("http_requests_in_flight"))

    def test_sum_of_processes_and_of_those_that_ended(self) -> None:
        folder = self.useFixture(fixtures.TempDir()).path
        program = (
            "from placement_core import metrics\n"
            "from placement_core.monitoring import page\n"
            "metrics.start()\n"
            "metrics.count_claim('held')\n"
            "metrics.count_request(('placement', 'GET /traits'), '200', .25)\n"
            "shown = page.make_page()({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/metrics',\n"
            "    'wsgi.multiprocess': True}, lambda *_: None)\n"
            "print(shown[0].decode())")
        for number in (1, 2, 3):
            text = subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True, text=True,
                env={**os.environ, metrics.FOLDER_VARIABLE: folder}).stdout
            found = scraping.numbers(text)
            self.assertEqual(
                (number, number * 0.25),
                (found["claims_total", "held"],
                 found["http_request_seconds_sum", "placement", "2xx"]))
