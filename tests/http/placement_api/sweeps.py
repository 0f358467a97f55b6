"""What a sweep of malformed requests needs: a small world, and ways to spoil a request."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
import webob

from placement_core.db import metadata
from tests.http import base

PROVIDER = "11111111-1111-4111-8111-111111111111"
CHILD = "22222222-2222-4222-8222-222222222222"
AGGREGATE = "33333333-3333-4333-8333-333333333333"
CONSUMER = "44444444-4444-4444-8444-444444444444"
#: Valid where a new one is wanted; nothing has it.
NEW = "55555555-5555-4555-8555-555555555555"

#: Rows that a refused write may leave behind: names that nothing refers to.
_HARMLESS = {"projects", "users", "consumer_types", "placement_aggregates"}

#: What takes the place of a value in a body. None of it is right everywhere.
WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 2**31, 2**63 - 1, -(2**63), "", "x", "☃" * 300, "A\n", " ",
    "urn:uuid:{" + NEW + "}", [], [None], {}, {"": None}, {"VCPU": -1}, [[]],
)
#: The same, written as JSON: what ``json.dumps`` would not write.
WRONG_TEXTS = (
    b"1e400", b"-1e400", b"NaN", b"Infinity", b"1" + b"0" * 400, b'"\\u0000"', b'"\\ud800"',
    b'"\xed\xa0\x80"', b'"\xff"', b"01", b"1.", b"'x'", b"undefined", b'{"a": 1, "a": {}}',
    b"[" * 3000, b"[" * 3000 + b"]" * 3000, b'{"a":' * 3000 + b"1" + b"}" * 3000,
)
#: Whole bodies.
WRONG_BODIES = (
    b"", b" ", b"{", b"}", b"null", b"true", b"0", b'"text"', b"[]", b"[{}]", b"{}", b"\0",
    b"\xff\xfe{}", '{"a": "☃"}'.encode("utf-16"), b"{} {}", b'{"\\u0000": 1}',
    b'{"\\ud800": 1}', b'{"": ""}', *WRONG_TEXTS,
)
#: Path segments, as they stand in a URL.
WRONG_SEGMENTS = (
    "x", "%20", "%00", "%0a", "%ff", "%ed%a0%80", "%e2%98%83", "%f0%9f%92%a9", "a" * 300,
    "CUSTOM_" + "A" * 300, "CUSTOM_A%0a", "vcpu", "'%20OR%201=1;--", "%2e%2e", "%25", "%2f",
    NEW.upper(), PROVIDER.upper() + "%0a", PROVIDER[:-1], PROVIDER.replace("-", ""), "{uuid}",
    "0", "-1", "null", "[]",
)
#: Query values, as they stand in a URL.
WRONG_QUERY_VALUES = (
    "", "%20", "x", "%00", "%ff", "%ed%a0%80", "%e2%98%83", ",", ",,", ":", "VCPU", "VCPU:",
    "VCPU:x", "VCPU:0", "VCPU:-1", "VCPU:1:1", "VCPU:1,", "vcpu:1", "VCPU:1.5", "NOPE:1",
    "VCPU%00:1", "VCPU:%d9%a3", "VCPU:" + "9" * 5000, "in:", "in:,", "!", "!!", "!in:", "!in:x",
    "in:!x", "in:x,y", PROVIDER + ",x", "{" + PROVIDER + "}", "-1", "0", "1e3", "9" * 5000,
    "none", "all%0a", "a" * 300, "startswith:%00", "startswith:%", "in:%ff", "true", "[]",
    "%5b%5d", "'%20OR%201=1", "urn:uuid:" + PROVIDER,
)


class SweepTestCase(base.HttpTestCase):
    """A service with a little of everything in it."""

    def setUp(self) -> None:
        super().setUp()
        engine = sa.create_engine(self.conf.placement_database.connection, poolclass=sa.NullPool)
        self.addCleanup(engine.dispose)
        self._engine = engine
        self.prepare()

    def ask(self, *args: Any, **kwargs: Any) -> webob.Response:
        """Send one request as somebody who may do everything, reshaping too."""
        headers = {"X-Roles": "admin,service", **(kwargs.pop("headers", None) or {})}
        return super().ask(*args, headers=headers, **kwargs)

    def prepare(self) -> None:
        """Make the world: a provider with a child, inventory, trait, aggregate, allocation."""
        for body in ({"name": "host", "uuid": PROVIDER},
                     {"name": "child", "uuid": CHILD, "parent_provider_uuid": PROVIDER}):
            self._must(200, "POST", "/resource_providers", body)
        at = f"/resource_providers/{PROVIDER}"
        for path in ("/traits/CUSTOM_SWEPT", "/resource_classes/CUSTOM_SWEPT"):
            self.assertIn(self.ask("PUT", path).status_int, (201, 204))
        self._must(201, "POST", f"{at}/inventories",
                   {"resource_class": "VCPU", "total": 8, "max_unit": 8})
        self._must(200, "PUT", f"{at}/traits", {
            "traits": ["CUSTOM_SWEPT"], "resource_provider_generation": 1})
        self._must(200, "PUT", f"{at}/aggregates", {
            "aggregates": [AGGREGATE], "resource_provider_generation": 2})
        self._must(204, "PUT", f"/allocations/{CONSUMER}", self.claim(None, 2))

    def restore(self) -> None:
        """Make the world what it was at first, but for custom names and sweepings."""
        found = self.ask("GET", "/resource_providers").json["resource_providers"]
        for provider in found:
            at = f"/resource_providers/{provider['uuid']}/allocations"
            for consumer in self.ask("GET", at).json["allocations"]:
                self._must(204, "DELETE", f"/allocations/{consumer}")
        # Children before their parents.
        for provider in sorted(found, key=lambda each: each["parent_provider_uuid"] is None):
            self._must(204, "DELETE", f"/resource_providers/{provider['uuid']}")
        self.prepare()

    def claim(self, generation: int | None, amount: int) -> dict[str, Any]:
        """Return a body of PUT /allocations."""
        return {
            "allocations": {PROVIDER: {"resources": {"VCPU": amount}, "generation": 1}},
            "mappings": {"": [PROVIDER]}, "consumer_type": "SWEPT", "project_id": "project",
            "user_id": "user", "consumer_generation": generation}

    def valid_bodies(self) -> dict[tuple[str, str], Any]:
        """Return {(method, path): a body that would be accepted now}."""
        provider = self.ask("GET", f"/resource_providers/{PROVIDER}").json
        seen = provider["generation"]
        held = self.ask("GET", f"/allocations/{CONSUMER}").json.get("consumer_generation")
        record = {"total": 9, "reserved": 1, "min_unit": 1, "max_unit": 8, "step_size": 1,
                  "allocation_ratio": 2.0}
        at = "/resource_providers/{uuid}"
        return {
            ("POST", "/resource_providers"):
                {"name": "new", "uuid": NEW, "parent_provider_uuid": PROVIDER},
            ("PUT", at): {"name": "host", "parent_provider_uuid": None},
            ("POST", f"{at}/inventories"): {
                **record, "resource_class": "DISK_GB", "resource_provider_generation": seen},
            ("PUT", f"{at}/inventories"): {
                "resource_provider_generation": seen, "inventories": {"VCPU": record}},
            ("PUT", f"{at}/inventories/{{resource_class}}"): {
                **record, "resource_provider_generation": seen},
            ("PUT", f"{at}/aggregates"): {
                "aggregates": [AGGREGATE, NEW], "resource_provider_generation": seen},
            ("PUT", f"{at}/traits"): {
                "traits": ["CUSTOM_SWEPT", "HW_CPU_X86_AVX"],
                "resource_provider_generation": seen},
            ("POST", "/resource_classes"): {"name": "CUSTOM_NEW"},
            ("POST", "/allocations"): {
                CONSUMER: self.claim(held, 3), NEW: self.claim(None, 1)},
            ("PUT", "/allocations/{consumer}"): self.claim(held, 1),
            ("POST", "/reshaper"): {
                "inventories": {PROVIDER: {
                    "resource_provider_generation": seen, "inventories": {"VCPU": record}}},
                "allocations": {CONSUMER: self.claim(held, 1)}},
        }

    def snapshot(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row that matters."""
        with self._engine.connect() as connection:
            return {
                table.name: sorted(
                    tuple(map(repr, row)) for row in connection.execute(sa.select(table)))
                for table in metadata.sorted_tables if table.name not in _HARMLESS}

    def assert_sound(self, response: Any, what: Any, statuses: set[int] | None = None) -> None:
        """Expect no 5xx, and of a refusal the JSON error document."""
        self.assertLess(response.status_int, 500, what)
        if response.status_int >= 400:
            (error,) = response.json["errors"]
            self.assertEqual(response.status_int, error["status"], what)
            self.assertTrue(error["request_id"].startswith("req-"), what)
            # Clients show the text after the last line break.
            sentence, reason = error["detail"].rsplit("\n", 1)
            self.assertNotIn("\n", sentence.rstrip("\n"), what)
            self.assertTrue(reason.strip() or response.status_int != 400, what)
        if statuses is not None:
            self.assertIn(response.status_int, statuses, what)

    def _must(self, status: int, method: str, path: str, body: Any = None) -> None:
        response = self.ask(method, path, body)
        self.assertEqual(status, response.status_int, response.body)


def filled(path: str) -> str:
    """Return a path with variables that exist in the world."""
    return path.format(
        uuid=PROVIDER, resource_class="VCPU", consumer=CONSUMER,
        name="CUSTOM_SWEPT")


def spoiled(body: Any, *, texts: Sequence[bytes] = WRONG_TEXTS) -> Iterator[tuple[str, bytes]]:
    """Yield (what was done, JSON) of bodies that differ from a valid one in one place."""
    for where in _places(body):
        for value in WRONG_VALUES:
            yield f"{where} = {value!r:.60}", _dumped(_replaced(body, where, value))
        marker = uuid.uuid4().hex
        whole = _dumped(_replaced(body, where, marker))
        for text in texts:
            yield f"{where} = {text[:60]!r}", whole.replace(f'"{marker}"'.encode(), text)
        if where and isinstance(where[-1], str):
            container = _at(body, where[:-1])
            less = {key: value for key, value in container.items() if key != where[-1]}
            yield f"no {where}", _dumped(_replaced(body, where[:-1], less))
            more = {**container, "unknown": 1}
            yield f"more beside {where}", _dumped(_replaced(body, where[:-1], more))
            for name in ("", "☃", "A\n", where[-1] + "\n", "x" * 300, "\ud800"):
                renamed = {(name if key == where[-1] else key): value
                           for key, value in container.items()}
                yield f"{where} named {name!r:.40}", _dumped(
                    _replaced(body, where[:-1], renamed))


def _places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = (
        body.items() if isinstance(body, dict)
        else enumerate(body) if isinstance(body, list) else ())
    for key, value in items:
        yield from _places(value, (*at, key))


def _at(body: Any, where: tuple[Any, ...]) -> Any:
    for key in where:
        body = body[key]
    return body


def _replaced(body: Any, where: tuple[Any, ...], value: Any) -> Any:
    if not where:
        return value
    changed = copy.deepcopy(body)
    _at(changed, where[:-1])[where[-1]] = value
    return changed


def _dumped(body: Any) -> bytes:
    return json.dumps(body).encode()
