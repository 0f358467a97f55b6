"""A real nova answers what the driver and the stand-in rely on."""

from __future__ import annotations

from typing import Any

from tests import base
from tests.nova import deployment
from tests.nova_habits import NovaHabits


class TestNova(NovaHabits, base.TestCase):
    """The nova of the play, on the host that is never in the freepool."""

    host = "c4"

    def setUp(self) -> None:
        super().setUp()
        missing = deployment.missing()
        if missing is not None:
            self.skipTest(f"a real nova needs {missing}")
        self.cloud = deployment.shared()
        self.project = self.cloud.member.project_id
        self.addOnException(lambda _error: self.cloud.keep_logs())

    def foreign_group(self) -> str:
        group = self.cloud.member.call("compute", "POST", "/os-server-groups", {
            "server_group": {"name": "theirs", "policy": "anti-affinity"}})["server_group"]
        self.addCleanup(
            self.cloud.member.call, "compute", "DELETE", f"/os-server-groups/{group['id']}")
        return str(group["id"])

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.cloud.service.send("compute", method, path, body, microversion="2.64")
