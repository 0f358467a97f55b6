"""Clients of different ages whose writes share a transaction, each of which has its own answer."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import webob

from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import format_version
from tests import databases, write_groups
from tests.http.placement_api.cases import MISSING, PlacementTestCase

#: The same each time, because errors name them.
_HELD = [f"aaaaaaaa-0000-4000-8000-{number:012}" for number in range(4)]
_NEW = [f"bbbbbbbb-0000-4000-8000-{number:012}" for number in range(20)]
_OWNER = {"project_id": "project", "user_id": "user"}
_HTML = {"Accept": "text/html"}
_UNDEFINED, _CONCURRENT = "placement.undefined_code", "placement.concurrent_update"


class _Request(NamedTuple):
    """A request, and what it is answered.

    :ivar consumers: those that its write names.
    :ivar code: in the JSON of the error; None: there is none, because the version is too low.
    """

    version: Version
    method: str
    consumers: tuple[str, ...]
    body: Any
    status: int = 204
    code: str | None = None
    headers: Mapping[str, str] = {}


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


@databases.on_each_database
class TestGroupedWrites(PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.provider("host", VCPU=100)
        #: Nothing of it is used, so that each refusal names the same usage.
        self.short = self.provider("short", VCPU=100)
        self.groups = self.useFixture(write_groups.Groups())

    def listed(self, amount: int, *, host: str = "", **members: str) -> dict[str, Any]:
        """Return a body below 1.12."""
        return {"allocations": [
            {"resource_provider": {"uuid": host or self.host}, "resources": {"VCPU": amount}}],
            **members}

    def keyed(self, amount: int, *, host: str = "", name: str = "VCPU",
              **members: Any) -> dict[str, Any]:
        return {"allocations": {host or self.host: {"resources": {name: amount}}},
                **_OWNER, **members}

    def list_requests(self) -> list[_Request]:
        """Return writes that do not depend on each other, of which some are refused."""
        (changed, newer, typed, deleted), new = _HELD, iter(_NEW)

        def one() -> tuple[str]:
            return (next(new),)

        several = one() + one(), one() + one()
        too_many = self.keyed(101, host=self.short)
        return [
            _Request(mv.BASE, "PUT", one(), self.listed(1)),
            _Request(mv.BASE, "PUT", one(), self.listed(101, host=self.short), 409),
            _Request(mv.OWNERS, "PUT", one(), self.listed(2, **_OWNER)),
            _Request(mv.ALLOCATIONS_DICT, "PUT", (changed,), self.keyed(3)),
            _Request(mv.ALLOCATIONS_DICT, "PUT", one(), self.keyed(1, host=MISSING), 400),
            _Request(mv.FORBIDDEN_TRAITS, "PUT", one(), too_many, 409),
            _Request(mv.ERROR_CODES, "PUT", one(), too_many, 409, _UNDEFINED),
            _Request(mv.ERROR_CODES, "PUT", one(), too_many, 409, headers=_HTML),
            _Request(mv.CONSUMER_GENERATION, "PUT", one(),
                     self.keyed(4, consumer_generation=None)),
            _Request(mv.CONSUMER_GENERATION, "PUT", (newer,),
                     self.keyed(1, consumer_generation=None), 409, _CONCURRENT),
            _Request(mv.CONSUMER_TYPES, "PUT", (typed,),
                     self.keyed(5, consumer_generation=1, consumer_type="VOLUME")),
            _Request(mv.NEWEST, "PUT", one(), self.keyed(
                1, name="CUSTOM_NOT", consumer_generation=None, consumer_type="INSTANCE"),
                400, _UNDEFINED),
            _Request(mv.POST_ALLOCATIONS, "POST", several[0], dict.fromkeys(
                several[0], self.keyed(1))),
            _Request(mv.NEWEST, "POST", several[1], dict.fromkeys(several[1], self.keyed(
                60, host=self.short, consumer_generation=None, consumer_type="INSTANCE")),
                409, _UNDEFINED),
            _Request(mv.BASE, "DELETE", (deleted,), None),
            _Request(mv.BASE, "DELETE", one(), None, 404),
            _Request(mv.NEWEST, "DELETE", one(), None, 404, _UNDEFINED),
        ]

    def test_each_has_its_own_answer(self) -> None:
        requests = self.list_requests()
        consumers = {uuid for request in requests for uuid in request.consumers}
        self.prepare()
        alone = [self.send(request) for request in requests]
        amounts = self.list_amounts(consumers)
        self.assertEqual(
            [(request.status, request.code) for request in requests],
            [(answer.status, self.find_code(answer)) for answer in alone])
        self.assertEqual([], self.groups.consumers)

        for uuid in consumers:
            self.call("DELETE", f"/allocations/{uuid}")
        self.prepare()
        together = write_groups.run(self.parts[0].claims._queue, *(
            functools.partial(self.send, request) for request in requests))
        self.assertEqual([consumers], self.groups.consumers)
        written = [uuid for request in requests for uuid in request.consumers
                   if request.status == 204 and request.method != "DELETE"]
        self.assertEqual(1, write_groups.count_transactions(
            self.parts[0].database, written))
        for request, expected, answer in zip(requests, alone, together, strict=True):
            self.assertEqual(expected, answer, str(request))
        self.assertEqual(amounts, self.list_amounts(consumers))

    def prepare(self) -> None:
        """Have four consumers hold something."""
        for uuid in _HELD:
            self.call("PUT", f"/allocations/{uuid}", self.claim({self.host: {"VCPU": 1}}),
                      status=204)

    def send(self, request: _Request) -> _Answer:
        """Send a request; return the answer without what each answer has anew."""
        path = "/allocations"
        if request.method != "POST":
            path += f"/{request.consumers[0]}"
        response: webob.Response = self.ask(
            request.method, path, request.body, version=format_version(request.version),
            headers={"X-Roles": "admin,service", **request.headers})
        headers = {name.lower(): value for name, value in response.headers.items()}
        request_id = headers.pop("x-openstack-request-id")
        return _Answer(
            response.status_int, headers, response.text.replace(request_id, "request id"))

    def find_code(self, answer: _Answer) -> str | None:
        """Return the code of an error in JSON."""
        if answer.headers.get("content-type") != "application/json":
            return None
        [error] = json.loads(answer.body)["errors"]
        code: str | None = error.get("code")
        return code

    def list_amounts(self, consumers: set[str]) -> dict[str, Any]:
        """Return what consumers hold, with their owners, types and generations."""
        held = {uuid: self.call("GET", f"/allocations/{uuid}", status=200).json
                for uuid in consumers}
        for each in held.values():
            for allocation in each["allocations"].values():
                del allocation["generation"]  # The provider's.
        return held
