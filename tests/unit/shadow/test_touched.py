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
C, D = "a9b1c0de-0000-4000-8000-00000000000c", "a9b1c0de-0000-4000-8000-00000000000d"


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
        for path, kind in (("traits", Kind.TRAIT), ("resource_classes", Kind.RESOURCE_CLASS)):
            touched = find_touched(make("GET", f"/{path}/CUSTOM_C"), Holdings())
            self.assertEqual({Key(kind, "CUSTOM_C")}, touched.objects)

    def test_standard_names(self) -> None:
        """Nobody can make or delete them, so there is nothing to read again."""
        for method in ("GET", "PUT"):
            for path in ("traits/HW_CPU_X86_VMX", "resource_classes/VCPU", "traits"):
                touched = find_touched(make(method, f"/{path}"), Holdings())
                self.assertEqual((frozenset(), True), (touched.objects, touched.alone), path)

    def test_claims(self) -> None:
        """Upstream does not know them: who answers says what is to be read again."""
        made = Answer(201, "", (), json.dumps(
            {"claim": {"consumer_uuid": C, **allocate("p")}}).encode())
        members = Answer(201, "", (), json.dumps({"claim": {"members": [
            {"consumer_uuid": C, "host": "h", **allocate("p")},
            {"consumer_uuid": D, "host": "i", **allocate("q")}]}}).encode())
        selected = {"consumer_uuids": [C, D.upper()]}
        for method, path, body, answer, objects in (
            ("POST", "", {"claim": allocate("p")}, None, {provider("p")}),
            ("POST", "", {"claim": allocate("p")}, made, {consumer(C), provider("p")}),
            ("POST", "", {"claim": allocate("p", consumer_uuid=C.replace("-", ""))}, None,
             {consumer(C), provider("p")}),
            ("POST", "", {"claim": {"find": {"members": 2, **selected}}}, None,
             {consumer(C), consumer(D)}),
            ("POST", "", {"claim": {"find": {"members": 2}}}, members,
             {consumer(C), consumer(D), provider("p"), provider("q")}),
            ("POST", f"/{C}/confirm", None, made, {consumer(C), provider("p")}),
            ("POST", "/confirm", selected, None, {consumer(C), consumer(D)}),
            ("POST", "/release", selected, None, {consumer(C), consumer(D)}),
            ("DELETE", f"/{C}", None, None, {consumer(C)}),
        ):
            touched = find_touched(
                make(method, f"/capacity/v1/claims{path}", body), Holdings(), answer)
            self.assertEqual((objects, True), (touched.objects, touched.alone), path)
        touched = find_touched(make("GET", f"/capacity/v1/claims/{C}"), Holdings())
        self.assertEqual((frozenset(), True), (touched.objects, touched.alone))

    def test_claims_that_are_none(self) -> None:
        for body in ([], {"claim": 1}, {"claim": {"find": [], "consumer_uuid": 7}},
                     {"claim": {"find": {"consumer_uuids": 7}, "members": [7]}},
                     {"consumer_uuids": [None, "x", "\ud800"]}):
            for path in ("", "/confirm", "/x/confirm", "/x"):
                touched = find_touched(
                    make("POST", f"/capacity/v1/claims{path}", body), Holdings(),
                    Answer(200, "", (), json.dumps(body).encode()))
                self.assertEqual((frozenset(), True), (touched.objects, touched.alone), body)

    def test_room_that_a_claim_frees(self) -> None:
        """What a consumer holds since then, no write of allocations said."""
        for path, body, answer in (
            (f"/{C}/confirm", None, None), ("", {"claim": allocate("p", consumer_uuid=C)}, None),
            ("", {"claim": allocate("p")}, {"claim": {"consumer_uuid": C, **allocate("p")}}),
        ):
            holdings = Holdings()
            holdings.learn(make("PUT", f"/allocations/{C}", allocate("q", **NEW)))
            holdings.learn(make("POST", f"/capacity/v1/claims{path}", body), Answer(
                200, "", (), json.dumps(answer).encode()))
            self.assertTrue(find_touched(make("DELETE", f"/allocations/{C}"), holdings).alone)

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

    def test_what_no_file_takes(self) -> None:
        """JSON can name half of a character; nothing has such a name."""
        for target, body in (
            ("/allocations/c", allocate("\ud800")), ("/allocations", {"\ud800": allocate()}),
            ("/resource_providers", {"uuid": "\ud800"}), ("/traits", {"name": "\ud800"}),
        ):
            touched = find_touched(make("POST", target, body), Holdings())
            self.assertEqual([], [key for key in touched.objects if key.id != "c"], target)

    def test_reads_overlap_writes_of_what_they_name(self) -> None:
        write = find_touched(make("PUT", "/resource_providers/p/traits", {}), Holdings())
        for target, overlaps in (
            ("/resource_providers/p/usages", True), ("/resource_providers/q/usages", False),
            ("/allocation_candidates?resources=VCPU:1", True), ("/usages", True),
            ("/allocations/unknown", True),
        ):
            read = find_touched(make("GET", target), Holdings())
            self.assertEqual(overlaps, read.overlaps(write), target)
