"""etc/monitoring: rules that promtool tries, and a dashboard; both name only what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import unittest
from collections.abc import Iterable

import fixtures
import yaml
from prometheus_client import parser

from doc import dashboard, samples
from placement_core import metrics
from placement_core.reservations.manager import heartbeats
from tests import base, scraping
from tests.http import base as http_base

_FOLDER = samples.ROOT / "etc" / "monitoring"
_RULES = _FOLDER / "placement-core.rules.yaml"
_CASES = _FOLDER / "placement-core.rules.test.yaml"
_PROMTOOL = shutil.which("promtool")

#: The names that samples of a type have beside, or in place of, their metric's.
_SUFFIXES = {
    "counter": ("_total",), "gauge": ("",), "summary": ("_count", "_sum"),
    "histogram": ("_bucket", "_count", "_sum"),
}
#: Labels that Prometheus adds, or a histogram has.
_LABELS_OF_ALL = {"job", "instance", "le"}


def list_alerts() -> dict[str, str]:
    """Return the expression of each alert."""
    (group,) = yaml.safe_load(_RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def list_queries() -> Iterable[str]:
    """Yield the queries of all panels."""
    for panel in json.loads(samples.DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


class TestRules(base.TestCase):
    @unittest.skipUnless(
        _PROMTOOL, "PROMTOOL IS NOT INSTALLED (Debian: prometheus): nobody tried the rules")
    def test_promtool(self) -> None:
        for command in (["check", "rules", _RULES.name], ["test", "rules", _CASES.name]):
            done = subprocess.run(
                [_PROMTOOL, *command], cwd=_FOLDER, capture_output=True, text=True, check=False,
                timeout=120)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_each_alert_has_cases(self) -> None:
        """One in which it fires, and one in which it does not."""
        cases = [
            (re.search('alertname="([A-Za-z]+)"', expression["expr"]).group(1),
             bool(expression["exp_samples"]))
            for case in yaml.safe_load(_CASES.read_text())["tests"]
            for expression in case["promql_expr_test"]]
        self.assertEqual(
            {(alert, fires) for alert in list_alerts() for fires in (True, False)}, set(cases))

    def test_each_alert_is_documented(self) -> None:
        text = (samples.ROOT / "doc" / "operator" / "monitoring.rst").read_text()
        self.assertEqual(
            set(list_alerts()), set(re.findall("``(PlacementCore[A-Za-z]+)``", text)))


class TestDashboard(base.TestCase):
    def test_it_is_what_the_script_makes(self) -> None:
        self.assertEqual(dashboard.render(), samples.DASHBOARD.read_text(), "run make samples")

    def test_panels_do_not_overlap(self) -> None:
        cells = []
        for panel in json.loads(samples.DASHBOARD.read_text())["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells += [(x, y) for x in range(place["x"], place["x"] + place["w"])
                      for y in range(place["y"], place["y"] + place["h"])]
        self.assertEqual(len(cells), len(set(cells)))

    @unittest.skipUnless(
        _PROMTOOL, "PROMTOOL IS NOT INSTALLED (Debian: prometheus): nobody parsed the queries")
    def test_queries_can_be_parsed(self) -> None:
        folder = self.useFixture(fixtures.TempDir())
        queries = [query.replace("$__rate_interval", "5m") for query in list_queries()]
        with open(folder.join("queries.yaml"), "w") as file:
            yaml.safe_dump({"groups": [{"name": "queries", "rules": [
                {"record": f"query_{number}", "expr": query}
                for number, query in enumerate(queries)]}]}, file)
        done = subprocess.run(
            [_PROMTOOL, "check", "rules", file.name], capture_output=True, text=True,
            check=False, timeout=120)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


class TestNames(http_base.HttpTestCase):
    """Whether rules and panels name what a running service shows."""

    options = {**http_base.HttpTestCase.options, ("metrics", "enabled"): True}

    def setUp(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        super().setUp()

    def scrape(self) -> set[str]:
        """Return the names of all samples that there are, or are once something is counted."""
        heartbeats.beat(self.parts[0].context(), owner="manager")
        text = self.ask("GET", "/metrics", token=None).text
        return {
            f"{family.name}{suffix}" for family in parser.text_string_to_metric_families(text)
            for suffix in _SUFFIXES[family.type]}

    def test_names(self) -> None:
        shown = self.scrape()
        queries = [*list_alerts().values(), *list_queries()]
        for query in queries:
            names = set(re.findall(r"placement_core_\w+", query))
            self.assertNotEqual(set(), names, query)
            self.assertEqual(set(), names - shown, query)

    def test_labels(self) -> None:
        """Each label of a query belongs to one of its metrics."""
        labels = scraping.list_labels()
        for query in [*list_alerts().values(), *list_queries()]:
            names = re.findall(r"placement_core_\w+", query)
            known = _LABELS_OF_ALL.union(*(
                metric_labels for metric, metric_labels in labels.items()
                if any(name.startswith(metric) for name in names)))
            used = set(re.findall(r"(\w+)(?:=~|!=|=)\"", query))
            for group in re.findall(r"by \(([^)]*)\)", query):
                used |= {label.strip() for label in group.split(",")}
            self.assertEqual(set(), used - known, query)
