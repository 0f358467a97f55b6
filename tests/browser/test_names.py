"""Names that people choose: markup, any script and direction, and as long as names may be."""

from __future__ import annotations

import datetime
import uuid
from typing import ClassVar

from placement_core import services
from placement_core.catalog import domains, loading, projects
from placement_core.limits import limits, registered
from placement_core.placement.records import AllocationWrite
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.testing import factories
from tests.browser import cases, clouds

_MARKUP = "<img src=x onerror=alert(1)>"
#: Whatever they are names of: markup, right-to-left with an override, emoji, no space.
_NAMES = (
    f"{_MARKUP}'\"></td><script>alert(2)</script>&amp;{{{{7*7}}}}",
    "מארח ראשון \u202eevil\u202c", "🦙🦙🏽‍🚀", "W" * 255)
_LONGEST_PROJECT, _LONGEST_PROVIDER = 64, 200


class TestNames(cases.BrowserTestCase):
    dashboard: ClassVar[clouds.Dashboard]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.dashboard = clouds.Dashboard(_fill)
        cls.dashboard.setUp()
        cls.addClassCleanup(cls.dashboard.cleanUp)

    def test_names(self) -> None:
        """They are texts and nothing else, and no page gets wider by them."""
        page = self.make_page(viewport=cases.NARROW)
        page.on("dialog", lambda dialog: self.fail(dialog.message))
        shown = ""
        for route, url in clouds.crawl(page, self.dashboard.url).items():
            page.goto(url)
            self.assertEqual(0, page.locator("main img, main script").count(), route)
            self.assert_fits(page, route)
            self.assert_accessible(page, route)
            shown += page.inner_text("body")
        for name in _NAMES:
            self.assertIn(name[:_LONGEST_PROJECT], shown)
        # What the template engine would compute is a name, too.
        self.assertIn("{{7*7}}", shown)


def _fill(parts: services.Services) -> None:
    """Write hosts, projects, a limit, servers and leases with these names."""
    ctx = parts.context()
    domain = domains.create(ctx, name=_NAMES[1])
    ids = loading.load(ctx, {"services": [{"type": "compute", "name": "nova"}]})
    service = {"service_id": ids[0].id}
    registered.create_many(ctx, parts.catalog, [
        {**service, "resource_name": "class:VCPU", "default_limit": 10}])
    start_at = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    for number, name in enumerate(_NAMES):
        project = projects.create(ctx, name=name[:_LONGEST_PROJECT], domain_id=domain.id)
        limits.create_many(ctx, parts.catalog, parts.model, [
            {**service, "project_id": project.id, "resource_name": "class:VCPU",
             "resource_limit": 5}])
        inventory = {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 200}
        host = factories.provider(ctx, name[:_LONGEST_PROVIDER], inventory=inventory)
        pooled = f"{number}{name}"[:_LONGEST_PROVIDER]
        factories.provider(ctx, pooled, inventory=inventory)
        parts.pool_hosts.register(ctx, pooled, {})
        parts.claims.replace(ctx, [AllocationWrite(
            str(uuid.uuid4()), {host.uuid: {"VCPU": 1}}, project_id=project.id, user_id=name,
            consumer_type="INSTANCE")])
        parts.leases.create(ctx, NewLease(
            name, project.id, name, start_at + datetime.timedelta(hours=1),
            start_at + datetime.timedelta(days=3), [NewReservation("physical:host", {
                "min": 1, "max": 1, "hypervisor_properties": "", "resource_properties": ""})]))
