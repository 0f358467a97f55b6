"""What is read of a service again."""

from __future__ import annotations

import asyncio

import testtools

from placement_core.shadow.messages import Answer, Request
from placement_core.shadow.rereading import Client, Refused
from placement_core.shadow.touched import Key, Kind


class Placement:
    """A service that answers everything with one status."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.paths: list[str] = []

    async def ask(self, request: Request) -> Answer:
        """Answer a request."""
        self.paths.append(request.path)
        return Answer(self._status, "", (), b"")


class TestClient(testtools.TestCase):
    def has_name(self, status: int) -> bool:
        client = Client(Placement(status), (), (1, 38))
        return asyncio.run(client.has_name(Key(Kind.TRAIT, "CUSTOM_A")))

    def test_a_name_that_is_there_or_not(self) -> None:
        for status, expected in ((200, True), (204, True), (404, False)):
            self.assertIs(expected, self.has_name(status))

    def test_a_name_of_which_nobody_knows(self) -> None:
        """What a service that fails does not say is no reason to delete it elsewhere."""
        for status in (401, 500, 503):
            self.assertRaises(Refused, self.has_name, status)

    def test_ids_that_no_path_can_have(self) -> None:
        service = Placement(404)
        asyncio.run(Client(service, (), (1, 38)).write("DELETE", "/allocations/a b?#%é"))
        self.assertEqual(["/allocations/a%20b%3F%23%25%C3%A9"], service.paths)
