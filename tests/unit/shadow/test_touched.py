"""Which objects a request touches."""

from __future__ import annotations

import json

import testtools

from placement_core.shadow.messages import Answer, Request
from placement_core.shadow.touched import Holdings, Key, Kind, find_new_uuid, find_touched


def make(method: str, target: str, body: object = None) -> Request:
    return Request(method, target, (), b"" if body is None else json.dumps(body).encode())


def provider(uuid: str) -> Key:
    return Key(Kind.PROVIDER, uuid)


def consumer(uuid: str) -> Key:
    return Key(Kind.CONSUMER, uuid)


def allocate(*providers: str, **more: object) -> dict[str, object]:
    return {"allocations": {uuid: {"resources": {"VCPU": 1}} for uuid in providers}, **more}


NEW = {"consumer_generation": None}


class TestFindTouched(testtools.TestCase):
    def test_what_belongs_to_a_provider(self) -> None:
        for part in ("inventories", "inventories/VCPU", "traits", "aggregates"):
            touched = find_touched(make("PUT", f"/resource_providers/p/{part}", {}), Holdings())
            self.assertEqual({provider("p")}, touched.objects)
            self.assertFalse(touched.alone)

    def test_the_tree_is_changed_alone(self) -> None:
        """Who may be deleted, and which names are free, depends on other providers."""
        for request in (
            make("POST", "/resource_providers", {"uuid": "p", "parent_provider_uuid": "q"}),
            make("PUT", "/resource_providers/p", {"parent_provider_uuid": "q"}),
        ):
            touched = find_touched(request, Holdings())
            self.assertEqual({provider("p"), provider("q")}, touched.objects)
            self.assertTrue(touched.alone)
        self.assertTrue(find_touched(make("DELETE", "/resource_providers/p"), Holdings()).alone)

    def test_a_uuid_that_the_service_made(self) -> None:
        request = make("POST", "/resource_providers", {"name": "n"})
        answer = Answer(201, "", (("Location", "http://h/placement/resource_providers/p"),), b"")
        self.assertEqual("p", find_new_uuid(request, answer))
        self.assertEqual({provider("p")}, find_touched(request, Holdings(), answer).objects)

    def test_a_uuid_in_the_answer(self) -> None:
        request = make("POST", "/resource_providers", {"name": "n"})
        self.assertEqual("p", find_new_uuid(request, Answer(200, "", (), b'{"uuid": "p"}')))

    def test_allocations_of_a_new_consumer(self) -> None:
        touched = find_touched(
            make("PUT", "/allocations/c", allocate("p", "q", **NEW)), Holdings())
        self.assertEqual({consumer("c"), provider("p"), provider("q")}, touched.objects)
        self.assertFalse(touched.alone)

    def test_allocations_as_a_list(self) -> None:
        body = {"allocations": [
            {"resource_provider": {"uuid": "p"}, "resources": {"VCPU": 1}}]}
        touched = find_touched(make("PUT", "/allocations/c", body), Holdings())
        self.assertEqual({consumer("c"), provider("p")}, touched.objects)

    def test_room_that_a_write_frees(self) -> None:
        """What comes next on a provider may need what a consumer held of it."""
        holdings = Holdings()
        holdings.learn(make("PUT", "/allocations/c", allocate("p", **NEW)))
        for request in (
            make("DELETE", "/allocations/c"),
            make("PUT", "/allocations/c", allocate(consumer_generation=1)),
        ):
            touched = find_touched(request, holdings)
            self.assertEqual({consumer("c"), provider("p")}, touched.objects)
            self.assertFalse(touched.alone)

    def test_a_consumer_from_before(self) -> None:
        """Nobody knows which providers its deletion frees."""
        self.assertTrue(find_touched(make("DELETE", "/allocations/c"), Holdings()).alone)

    def test_several_consumers(self) -> None:
        touched = find_touched(make("POST", "/allocations", {
            "c": allocate("p", **NEW), "d": allocate("q", **NEW)}), Holdings())
        self.assertEqual(
            {consumer("c"), consumer("d"), provider("p"), provider("q")}, touched.objects)

    def test_reshaping(self) -> None:
        touched = find_touched(make("POST", "/reshaper", {
            "inventories": {"p": {}}, "allocations": {"c": allocate("q")}}), Holdings())
        self.assertEqual({provider("p"), provider("q"), consumer("c")}, touched.objects)
        self.assertTrue(touched.alone)

    def test_names(self) -> None:
        """They are changed alone: inventories and traits of providers depend on them."""
        touched = find_touched(make("DELETE", "/traits/CUSTOM_A"), Holdings())
        self.assertEqual({Key(Kind.TRAIT, "CUSTOM_A")}, touched.objects)
        self.assertTrue(touched.alone)
        touched = find_touched(
            make("POST", "/resource_classes", {"name": "CUSTOM_B"}), Holdings())
        self.assertEqual({Key(Kind.RESOURCE_CLASS, "CUSTOM_B")}, touched.objects)

    def test_limits(self) -> None:
        """Each depends on others; their model is none."""
        touched = find_touched(make("PATCH", "/v3/limits/l", {}), Holdings())
        self.assertEqual(
            ({Key(Kind.LIMIT, "l")}, True), (touched.objects, touched.alone))
        touched = find_touched(make("GET", "/v3/limits/model"), Holdings())
        self.assertEqual((frozenset(), False), (touched.objects, touched.alone))

    def test_what_is_no_json(self) -> None:
        for target in ("/allocations/c", "/allocations", "/reshaper", "/resource_providers"):
            for body in (b"", b"{", b"[1]", b'{"allocations": 3}', b'{"c": 1}', b"null"):
                find_touched(Request("POST", target, (), body), Holdings())

    def test_reads_overlap_writes_of_what_they_name(self) -> None:
        write = find_touched(make("PUT", "/resource_providers/p/traits", {}), Holdings())
        for target, overlaps in (
            ("/resource_providers/p/usages", True), ("/resource_providers/q/usages", False),
            ("/allocation_candidates?resources=VCPU:1", True), ("/usages", True),
            ("/allocations/unknown", True),
        ):
            read = find_touched(make("GET", target), Holdings())
            self.assertEqual(overlaps, read.overlaps(write), target)
