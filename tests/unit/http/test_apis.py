"""Which API a path belongs to."""

from __future__ import annotations

from placement_core.app import APIS
from placement_core.http.apis import ApisByPath
from tests import base


class TestApisByPath(base.TestCase):
    def test_the_longest_prefix_wins(self) -> None:
        apis = ApisByPath(APIS)
        for path, name in (
            ("/capacity/v1/claims", "capacity"), ("/capacity/v1", "capacity"),
            ("/v3/limits", "limits"), ("/v3", "limits"),
            ("/v1/leases", "reservation"), ("/resource_providers", "placement"),
            ("/", "placement"), ("", "placement"),
        ):
            self.assertEqual(name, apis.find(path).name, path)

    def test_a_prefix_is_whole_segments(self) -> None:
        apis = ApisByPath(APIS)
        for path in ("/v30/limits", "/capacity/v10", "/v3limits"):
            self.assertEqual("placement", apis.find(path).name, path)
