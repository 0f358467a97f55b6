"""What every command prints: keys that programs can use, and sentences where there is nothing."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import fixtures
import yaml

from placement_core import db, services
from placement_core.cli import base, engine, main
from placement_core.placement.records import AllocationWrite
from placement_core.reservations.provisioning import compute_calls, outbox
from placement_core.shadow import reports, state
from placement_core.shadow.modes import Side
from placement_core.shadow.touched import Key, Kind
from placement_core.testing import factories
from tests import keystone_database
from tests.functional.cli import commands, test_catalog, test_commands, test_limits
from tests.http import base as http_base

_OPTIONS = {"OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true", "OS_QUOTA__REGION": "RegionOne"}
_SERVICE = "--service nova --region RegionOne"
_RESERVATION = "--project web --reservation {reservation}"

#: What each command that prints a table or fields is called with, in the order of the calls;
#: {words} are of ``_World``.
_CALLS = {
    "status upgrade check": "",
    "db version": "",
    "catalog load": "{catalog_file}",
    "catalog region add": "RegionTwo",
    "catalog region list": "",
    "catalog region show": "RegionTwo",
    "catalog service add": "image",
    "catalog service list": "",
    "catalog service show": "nova",
    "catalog endpoint add": "nova public http://h --id e",
    "catalog endpoint list": "",
    "catalog endpoint show": "e",
    "catalog domain add": "Other",
    "catalog domain list": "",
    "catalog domain show": "Other",
    "catalog project add": "shop --domain Default",
    "catalog project list": "",
    "catalog project show": "shop",
    "catalog project move": "shop --parent team",
    "migrate check": "--from keystone={keystone}",
    "migrate copy": "--from keystone={keystone}",
    "migrate diff": "--from keystone={keystone}",
    "migrate shadow report": "--state {shadow_state}",
    "export": "keystone --to {folder}/rows",
    "limits register": "{limits_file}",
    "limits set": f"web servers 5 {_SERVICE}",
    "limits list": "",
    "limits show": f"web {_SERVICE}",
    "limits audit": "",
    "limits unset": f"web servers {_SERVICE}",
    "quota show": "web",
    "quota list": "",
    "quota check": "web class:VCPU=30",
    "quota explain": "web class:VCPU=30",
    "hosts register": "c1 --property rack=r1",
    "hosts list": "",
    "hosts show": "c1",
    "hosts set": "c1 --property rack=r2",
    "leases create": "first --end +1d " + _RESERVATION,
    "leases list": "",
    "leases show": "first",
    "leases whatif": "--end +1d --project web --reservation {too_much}",
    "leases next-fit": "--minutes 5 " + _RESERVATION,
    "leases timeline": "",
    "events list": "",
    "claims list": "",
    "claims show": "{consumer}",
    "claims release": "{consumer}",
    "claims find": "resources=VCPU:1 --members 1 --project lab --user alice --dry-run",
    "claims sweep": "",
    "consumers list": "",
    "providers list": "",
    "usages list": "",
    "usage intervals": "",
    "usage totals": "",
    "audit list": "",
    "thresholds list": "",
    "workers list": "",
    "refusals list": "",
    "capacity room": "",
    "capacity hosts": "",
    "capacity fits": "--resources VCPU=1",
    "capacity stranded": "",
    "cells add": "north --database sqlite:///{folder}/north.sqlite",
    "cells list": "",
    "cells sync": "--all",
    "cells check": "",
    "cells set": "north --name south",
    "cells disable": "south",
    "cells enable": "south",
    "instances list": "",
    "compute list": "",
    "outbox list": "",
    "outbox audit": "",
    "db audit": "",
    "db check-engine": "",
    "explain candidates": "resources=VCPU:1",
    "plugins list": "",
    "config show": "",
}

#: Those of them that print a table, called where it has no rows.
_EMPTY_CALLS = {
    **{f"catalog {kind} list": "" for kind in ("region", "service", "endpoint", "domain",
                                               "project")},
    "catalog load": "{empty_file}",
    "migrate check": "--from keystone={keystone}",
    "migrate copy": "--from keystone={keystone}",
    "migrate diff": "--from keystone={keystone}",
    "export": "keystone --to {folder}/rows",
    "limits list": "--project web",
    "limits show": "web --service nova",
    "limits audit": "",
    "quota show": "web",
    "quota list": "",
    "quota check": "web cores=4",
    "hosts list": "",
    "leases list": "--status ACTIVE",
    "leases timeline": "",
    "events list": "",
    "claims list": "--project lab",
    "claims sweep": "",
    "consumers list": "",
    "providers list": "--member-of 5bfb1c6a-8d0e-4f3c-9a57-1d2e3f405162",
    "usages list": "",
    "usage intervals": "",
    "usage totals": "",
    "audit list": "",
    "thresholds list": "",
    "workers list": "",
    "refusals list": "",
    "capacity room": "--group-by aggregate",
    "capacity hosts": "--marker ffffffff-ffff-ffff-ffff-ffffffffffff",
    "cells list": "",
    "cells sync": "--all",
    "cells check": "",
    "instances list": "",
    "compute list": "",
    "outbox list": "",
    "outbox audit": "",
    "db audit": "",
}
#: Never without rows: they print what they did, or what is always there.
_NEVER_EMPTY = {"limits register", "limits set", "limits unset", "claims show", "claims release",
                "claims find", "quota explain", "plugins list", "status upgrade check",
                "config show", "db check-engine"}

_KEY = "^[a-z][a-z0-9_]*$"
#: How Python spells a dict or a list of texts.
_PYTHON = r"\{'|\['|\[\{'"


def _find_commands(kind: type) -> list[str]:
    """Return the names of the commands of a kind."""
    manager = main._make_command_manager()
    return [name for name, _ in manager
            if issubclass(manager.find_command(name.split())[0], kind)]


def _walk(value: Any) -> Iterator[Any]:
    """Return a value and all that is in it."""
    yield value
    if isinstance(value, dict | list):
        for item in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _walk(item)


class AnswersTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{engine.__name__}.CHECKS", engine.CHECKS[:3]))
        self.sync()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.folder / "placement.conf").write_text(
            "[least_stranded]\nshape = VCPU:4,MEMORY_MB:500\n", encoding="utf-8")

    def write(self, text: str) -> pathlib.Path:
        path = self.folder / f"{factories.new_uuid()}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def call(self, name: str, arguments: str, *more: str, **words: Any) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        done = commands.run(
            *name.split(), *(word.format_map(words) for word in arguments.split()), *more,
            connection=self.connection, OS_PLACEMENT_CONFIG_DIR=str(self.folder), **_OPTIONS)
        self.assertNotEqual("", done.stdout, f"{name}: {done.stderr}")
        return done.returncode, done.stdout


class TestDocuments(AnswersTestCase):
    def setUp(self) -> None:
        super().setUp()
        parts = services.build(http_base.configuration(self.connection))
        self.addCleanup(parts.database.dispose)
        ctx = parts.context()
        for name in ("c1", "c2"):
            provider = factories.provider(ctx, name, inventory={
                "VCPU": 8, "MEMORY_MB": 1000, "DISK_GB": 1000})
        consumer = factories.new_uuid()
        parts.claims.claim(ctx, AllocationWrite(
            consumer, {provider.uuid: {"VCPU": 2}}, "web", "bob", "INSTANCE", None),
            hold_seconds=600)
        with db.write(ctx) as session:
            outbox.put(session, "r", None, compute_calls.grant_slots("r", "web"))
        self.execute("INSERT INTO instance_mappings (instance_uuid, project_id, user_id, "
                     "queued_for_delete) VALUES ('i', 'web', 'bob', 0)")
        slot = "resource_type=virtual:instance,vcpus={},memory_mb=1,disk_gb=1,amount=1"
        self.words = {
            "folder": self.folder, "consumer": consumer, "reservation": slot.format(1),
            "too_much": slot.format(9), "catalog_file": self.write(test_catalog.FILE),
            "limits_file": self.write(test_limits.FILE),
            "keystone": keystone_database.make(self.folder / "keystone.sqlite", {
                "region": [{"id": "RegionOne", "description": "the first"},
                           {"id": "lost", "parent_region_id": "gone"}]}),
            "shadow_state": self.make_shadow()}

    def make_shadow(self) -> pathlib.Path:
        """Make the state of a shadow in which something differed; return its path."""
        path = self.folder / "shadow"
        with state.State(path) as shadow:
            shadow.differ("usages: body", "GET", "/usages?project_id=p", '200 {"a": 1}', "200 {}")
            shadow.count(reports.NOISE + "order of a list")
            shadow.measure(Side.UPSTREAM, 0.01)
            shadow.mark([Key(Kind.PROVIDER, "p")], "a read differs")
        return path

    def test_keys_are_words_without_blanks(self) -> None:
        """Of every command there is: what reads JSON needs no quoting, and no Python."""
        self.assertEqual(sorted(_find_commands((base.Lister, base.Shower))), sorted(_CALLS))
        for name, arguments in _CALLS.items():
            _, printed = self.call(name, arguments, "-f", "json", **self.words)
            document = json.loads(printed)
            for row in document if isinstance(document, list) else [document]:
                for key in row:
                    self.assertRegex(key, _KEY, name)
            for value in _walk(document):
                if isinstance(value, str):
                    self.assertNotRegex(value, _PYTHON, name)

    def test_flat_formats_have_no_python(self) -> None:
        tables = _find_commands(base.Lister)
        for name, arguments in _CALLS.items():
            _, printed = self.call(
                name, arguments, "-f", "csv" if name in tables else "shell", **self.words)
            self.assertNotRegex(printed, _PYTHON, name)

    def test_sorting_changes_no_cell(self) -> None:
        """Nested values stay JSON, and what is not there stays blank."""
        for formatter in ("csv", "table", "value"):
            _, printed = self.call("providers list", "", "-f", formatter)
            _, ordered = self.call("providers list", "-c name --sort-column name", "-f", formatter,
                                   "--sort-descending")
            self.assertEqual(["c2", "c1"], re.findall("c[12]", ordered), formatter)
            for column in ("name", "uuid"):
                _, ordered = self.call(
                    "providers list", f"--sort-column {column}", "-f", formatter)
                self.assertEqual(
                    sorted(printed.splitlines()), sorted(ordered.splitlines()), formatter)

    def test_yaml(self) -> None:
        for name, arguments in _CALLS.items():
            _, printed = self.call(name, arguments, "-f", "yaml", **self.words)
            yaml.safe_load(printed)

    def test_no_table_has_a_column_twice(self) -> None:
        """Nor two columns of ids that other columns name."""
        for name, arguments in _CALLS.items():
            _, printed = self.call(name, arguments, **self.words)
            self.assertNotRegex(printed, _PYTHON, name)
            for line in printed.splitlines():
                cells = [cell.strip() for cell in line.split("|")]
                ids = [cell for cell in cells if re.fullmatch("[0-9a-f]{32}", cell)]
                self.assertTrue(len(ids) <= 1, f"{name}: {line}")


class TestEmptyAnswers(AnswersTestCase):
    def test_every_table(self) -> None:
        """A sentence says what there is none of; machines get an empty list."""
        self.assertEqual(sorted({*_find_commands(base.Lister)} - _NEVER_EMPTY),
                         sorted(_EMPTY_CALLS))
        catalog = self.write(test_catalog.FILE)
        empty = self.write("{}")
        keystone = keystone_database.make(self.folder / "keystone.sqlite", {})
        for name, arguments in _EMPTY_CALLS.items():
            if name.startswith("limits"):
                self.call("catalog load", str(catalog))
            code, printed = self.call(
                name, arguments, empty_file=empty, keystone=keystone, folder=self.folder)
            self.assertEqual(0, code, name)
            self.assertRegex(printed, r"\A[^|]+\.\n\Z", name)
            self.assertNotIn(base.Lister.empty, printed)
            if name != "leases timeline":
                self.assertEqual(
                    [], json.loads(self.call(
                        name, arguments, "-f", "json", empty_file=empty,
                        keystone=keystone, folder=self.folder)[1]), name)

    def test_a_table_without_rows_on_demand(self) -> None:
        self.assertIn("| id | name |", self.call("leases list", "--print-empty")[1])

    def test_filters_are_named(self) -> None:
        self.assertEqual("There are no leases with project lab, status ACTIVE.\n", self.call(
            "leases list", "--project lab --status ACTIVE")[1])
