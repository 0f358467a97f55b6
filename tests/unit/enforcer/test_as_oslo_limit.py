"""The same answers as oslo.limit's, in the flat model."""

from __future__ import annotations

from oslo_limit import limit as oslo_limit

from placement_core.enforcer import Connection, Enforcer
from tests import base
from tests.unit.enforcer import judge
from tests.unit.enforcer.cloud import COMPUTE, ENDPOINT, Cloud


class TestAboveACapacityService(base.TestCase):
    """placement_core answers both."""

    capacity = True

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(Cloud(capacity=self.capacity))

    def use(self, **options: str | None) -> None:
        """Configure oslo.limit."""
        self.useFixture(judge.OsloLimit(self.cloud.file(**options)))

    def set(self, registered: dict[str, int], limits: dict[str, dict[str, int]]) -> None:
        self.cloud.registered, self.cloud.limits = registered, limits

    def requests(self) -> int:
        came = len(self.cloud.asked)
        self.cloud.asked.clear()
        return came

    def test_random_claims(self) -> None:
        """Verdicts, reports, callbacks; with less than half of the requests."""
        self.use()
        judge.compare(self, Connection(self.cloud.conf()), self.set, self.requests,
                      projects=["p", "q"], turns=50)

    def test_senseless_arguments(self) -> None:
        """The same are refused."""
        self.use()
        service = judge.Service()
        ours = Enforcer(service.usage, connection=Connection(self.cloud.conf()))
        theirs = oslo_limit.Enforcer(service.usage)
        for call in judge.SENSELESS:
            self.assertEqual("senseless", judge.outcome(theirs, *call), call)
            self.assertEqual("senseless", judge.outcome(ours, *call), call)
        self.assertRaises(ValueError, oslo_limit.Enforcer, "callback")

    def test_endpoints(self) -> None:
        """Found and refused alike."""
        self.cloud.services.append({**COMPUTE, "id": "v" * 32, "name": "other"})
        self.cloud.services.append({**COMPUTE, "id": "w" * 32, "type": "volume"})
        self.cloud.endpoints.append({**ENDPOINT, "id": "f", "region_id": "there"})
        names = ("endpoint_id", "endpoint_service_type", "endpoint_service_name",
                 "endpoint_region_name", "endpoint_interface")
        cases = (
            (ENDPOINT["id"], None, None, None, None), ("f", "volume", None, None, None),
            ("unknown", None, None, None, None), (None, None, None, None, None),
            (None, "compute", None, "here", None), (None, "compute", "nova", "here", None),
            (None, "compute", "nova", None, None), (None, "compute", "nova", "there", "publicURL"),
            (None, "compute", "nova", "nowhere", None), (None, "compute", "nova", "here", "admin"),
            (None, None, "other", None, None), (None, "image", None, None, None),
            (None, None, "nova", "here", None), (None, "volume", None, "here", None),
        )
        found = []
        for case in cases:
            options = dict(zip(names, case, strict=True))
            oslo = judge.OsloLimit(self.cloud.file(**options))
            with oslo:
                theirs = _place(lambda: oslo_limit.Enforcer(print).model._utils._endpoint)
            ours = _place(lambda options=options: Connection(self.cloud.conf(**options)).place)
            self.assertEqual(theirs, ours, options)
            found.append(theirs is not None)
        self.assertEqual({True, False}, set(found))


def _place(find) -> tuple[str, str] | None:
    try:
        found = find()
    except ValueError:
        return None
    return found.service_id, found.region_id


class TestAboveAKeystone(TestAboveACapacityService):
    """A Keystone answers both: no ETags, and two questions."""

    capacity = False
