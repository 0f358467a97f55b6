"""Which callers are on this machine."""

from __future__ import annotations

from placement_core.http import local_callers
from tests import base


class TestLocal(base.TestCase):
    def test_loopback(self) -> None:
        for host, is_local in (
            ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
            ("localhost", True), ("10.0.0.1", False), ("::ffff:10.0.0.1", False),
            ("0.0.0.0", False), ("::", False), ("example.org", False), ("", False),
        ):
            self.assertEqual(is_local, local_callers.is_loopback(host), host)

    def test_a_proxy_on_this_machine_is_none(self) -> None:
        self.assertTrue(local_callers.is_local({"REMOTE_ADDR": "127.0.0.1"}))
        for header in ("HTTP_VIA", "HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP"):
            self.assertFalse(
                local_callers.is_local({"REMOTE_ADDR": "127.0.0.1", header: ""}), header)

    def test_a_socket_has_no_address(self) -> None:
        self.assertFalse(local_callers.is_local({}))
