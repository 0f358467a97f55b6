"""Names that somebody chose: markup, other scripts, emoji, and as long as they may be."""

from __future__ import annotations

import urllib.parse

from placement_core.catalog import domains, projects, regions, services as catalog_services
from placement_core.limits import limits, registered
from tests.http.dashboard import cases
from tests.http.leases_api.cases import whole

NAMES = (
    "</title><script>alert(1)</script>", '" onmouseover="alert(1)', "{{ 7 * 7 }} {% raw %}",
    "مشروع \u202e عكس", "\N{PILE OF POO}\u200d\N{SNOWMAN}", "x" * 255, "a/b?c=d#e&amp;%41")


class TestIds(cases.PageTestCase):
    options = {**cases.PageTestCase.options, ("quota", "count_usage_from_placement"): True}

    def test_projects_with_any_id(self) -> None:
        """A catalog elsewhere may have ids that paths cannot have: a page leads to each."""
        self.host("c1", vcpus=100)
        project_ids = ["a/b", "../hosts", ".", "a?b=c&d", "%2F", "مشروع"]
        for project_id in project_ids:
            self.lease(name=f"of {project_id}", token=f"jane:{project_id}")
        for path in ("/leases", "/leases?by=project"):
            links = {link for link in self.page(path).links if "/project?" in link}
            self.assertEqual(
                {f"/dashboard/project?{urllib.parse.urlencode({'id': project_id})}"
                 for project_id in project_ids}, links)
        for link in links:
            page = self.page(link.removeprefix("/dashboard"))
            project_id = urllib.parse.unquote_plus(link.partition("=")[2])
            self.assertIn(project_id, page.texts)
            self.assertIn(f"of {project_id}", page.texts)


class TestNames(cases.PageTestCase):
    options = {**cases.PageTestCase.options, ("quota", "count_usage_from_placement"): True}

    def test_everywhere(self) -> None:
        """Each page has them as text, and nothing else of the page is changed by them."""
        service = catalog_services.create(self.ctx, service_type="compute").id
        regions.create(self.ctx, id="RegionOne")
        domain = domains.create(self.ctx, name="<b>garden").id
        registered.create_many(self.ctx, self.services.catalog, [
            {"service_id": service, "resource_name": name, "default_limit": 10}
            for name in ("class:VCPU", "class-VCPU", "my cores")])
        parent = domain
        project_names = [name[:64] for name in NAMES]
        for name in project_names:
            parent = projects.create(
                self.ctx, name=name, domain_id=domain, parent_id=parent).id
        limits.create_many(self.ctx, self.services.catalog, self.services.model, [
            {"service_id": service, "project_id": parent, "resource_name": "class:VCPU",
             "resource_limit": 5}])
        lease_names = [name[:80] for name in NAMES]
        for number, name in enumerate(NAMES):
            self.host(name[:200])
            self.lease(whole(), name=name[:80], token=f"<i>{number}:{parent}")
        host_names = [name[:200] for name in NAMES]
        for path, names in (
                ("", [*lease_names, *host_names, *project_names]),
                ("/hosts", host_names), ("/leases", lease_names),
                ("/leases?by=host", host_names), ("/leases?by=project", lease_names),
                ("/projects", project_names),
                (f"/project?id={parent}", [*lease_names, project_names[-1]])):
            page = self.page(path)
            texts = "\0".join([*page.texts, *page.labels])
            for name in names:
                self.assertIn(name, texts, path)
        for link in {link for link in page.links if "/leases/" in link}:
            self.page(link.removeprefix("/dashboard"))
