"""The contract of catalog drivers finds what is wrong with one."""

from __future__ import annotations

import dataclasses
import unittest

from placement_core.context import Context
from placement_core.plugin_api.catalog import Domain, Node, Project
from placement_core.testing.catalog import CatalogContract
from placement_core.testing.fakes import MemoryCatalog
from tests import base
from tests.unit.testing import outcomes

_LISTS = ("regions", "services", "endpoints", "domains", "projects")


class _IgnoresNames(MemoryCatalog):
    def services(self, ctx, *, service_type=None, name=None):
        return super().services(ctx, service_type=service_type)


class _IgnoresCase(MemoryCatalog):
    def domains(self, ctx, *, name=None):
        return [domain for domain in super().domains(ctx)
                if name is None or domain.name.lower() == name.lower()]


class _ListsGrandchildren(MemoryCatalog):
    def projects(self, ctx, *, name=None, domain_id=None, parent_id=None):
        below = {node.id for node in self.subtree(ctx, parent_id)[1:]}
        return [project for project in super().projects(ctx, name=name, domain_id=domain_id)
                if parent_id is None or project.id in below]


class _LosesFields(MemoryCatalog):
    def service(self, ctx, id_):
        service = super().service(ctx, id_)
        return service and dataclasses.replace(service, enabled=True)


class _DomainsAreProjects(MemoryCatalog):
    def project(self, ctx, id_):
        domain = super().domain(ctx, id_)
        return super().project(ctx, id_) if domain is None else Project(id_, "", id_, id_)


class _FindsEverybody(MemoryCatalog):
    def domain(self, ctx, id_):
        return super().domain(ctx, id_) or Domain(id_, "somebody")


class _FromBelow(MemoryCatalog):
    def lineage(self, ctx, node_id):
        return super().lineage(ctx, node_id)[::-1]


class _ChildrenFirst(MemoryCatalog):
    def subtree(self, ctx, node_id):
        first, *below = super().subtree(ctx, node_id)
        return first, *reversed(below)


class _ListsNobodyUnknown(MemoryCatalog):
    def subtree(self, ctx, node_id):
        nodes = super().subtree(ctx, node_id)
        return () if nodes == (Node(node_id, None),) else nodes


class _CountsProjectsOnly(MemoryCatalog):
    def depth(self, ctx):
        return super().depth(ctx) - 1


_FAULTS = {
    _IgnoresNames: "test_services_by_type_and_name",
    _IgnoresCase: "test_domains_by_name",
    _ListsGrandchildren: "test_projects_by_name_domain_and_parent",
    _LosesFields: "test_by_id",
    _FindsEverybody: "test_by_id",
    _DomainsAreProjects: "test_a_domain_is_no_project",
    _FromBelow: "test_lineage",
    _ChildrenFirst: "test_subtree",
    _ListsNobodyUnknown: "test_unknown_nodes_stand_alone",
    _CountsProjectsOnly: "test_depth",
}


def _find_failures(catalog: type[MemoryCatalog]) -> set[str]:
    """Return the contract's tests that a catalog does not pass."""

    class Suite(CatalogContract, unittest.TestCase):
        def make_catalog(self, world):
            self.catalog = catalog(**{name: getattr(world, name) for name in _LISTS})
            return {}

        def make_driver(self):
            return self.catalog

        def make_context(self):
            return Context(database=None)

    return outcomes.find_failures(Suite)


def _change_list(name, change):
    """Return a catalog that changes what it lists of one kind if no filter is given."""
    list_all = getattr(MemoryCatalog, name)

    def list_(self, ctx, **filters):
        records = list_all(self, ctx, **filters)
        return records if any(filters.values()) else change(records)

    return type(f"_Changes{name.capitalize()}", (MemoryCatalog,), {name: list_})


class TestContract(base.TestCase):
    def test_a_good_one(self):
        self.assertEqual(set(), _find_failures(MemoryCatalog))

    def test_what_is_wrong(self):
        for catalog, name in _FAULTS.items():
            self.assertIn(name, _find_failures(catalog), catalog.__name__)

    def test_lists_without_a_filter(self):
        """All records are listed, once, in something that callers can measure and index."""
        for name in _LISTS:
            for change in (lambda records: [], lambda records: records[1:],
                           lambda records: [*records, records[0]], iter):
                self.assertIn(
                    "test_lists", _find_failures(_change_list(name, change)), name)

    def test_nodes_that_can_be_read_once(self):
        """Callers index lineages and subtrees, and read them again."""
        for name, test in (("lineage", "test_lineage"), ("subtree", "test_subtree")):
            read = getattr(MemoryCatalog, name)
            catalog = type("_Generates", (MemoryCatalog,), {
                name: lambda self, ctx, node_id, read=read: iter(read(self, ctx, node_id))})
            failures = _find_failures(catalog)
            self.assertLessEqual({test, "test_unknown_nodes_stand_alone"}, failures, name)
