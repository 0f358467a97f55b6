"""The stand-in for Nova answers what a real nova answers (``tests.nova.test_habits``)."""

from __future__ import annotations

import json
import unittest
import urllib.error
import urllib.request
from typing import Any

from tests import base, nova_standin
from tests.nova_habits import NovaHabits


@unittest.skipUnless(nova_standin.INSTALLED, "nova is not installed")
class TestStandIn(NovaHabits, base.TestCase):
    """Two hosts, and nothing else."""

    host = "compute-1"
    project = "a0" * 16

    def setUp(self) -> None:
        super().setUp()
        self.nova = nova_standin.shared()
        self.nova.reset(
            hosts={"one": "compute-1", "two": "compute-2"},
            unknown_projects=[self.unknown_project])

    def foreign_group(self) -> str:
        return self.nova.put_group("theirs", project="a0" * 16)

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.nova.nova}{path}", None if body is None else json.dumps(body).encode(),
            {"X-Auth-Token": "a token", "OpenStack-API-Version": "compute 2.64"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
