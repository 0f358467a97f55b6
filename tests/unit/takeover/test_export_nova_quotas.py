"""What nova's tables of quotas are to hold of our limits."""

from __future__ import annotations

import dataclasses

from placement_core.limits.records import Limit, RegisteredLimit, UserLimit
from placement_core.takeover.exports import nova_quotas
from tests import base

_EMPTY = nova_quotas.Present("compute", "R1", {"web", "shop"}, [], [], [])


def _registered(name: str, value: int, **fields: object) -> RegisteredLimit:
    return dataclasses.replace(
        RegisteredLimit(f"of {name}", "compute", "R1", name, value), **fields)


def _limit(name: str, value: int, **fields: object) -> Limit:
    return dataclasses.replace(
        Limit(f"{name} of web", "web", None, "compute", "R1", name, value), **fields)


def _user_limit(name: str, value: int, **fields: object) -> UserLimit:
    return dataclasses.replace(
        UserLimit(f"{name} of ann", "web", "ann", "compute", "R1", name, value), **fields)


class TestConvert(base.TestCase):
    def convert(self, registered=(), limits=(), user_limits=()):
        """Return {(table, whose, resource): hard limit}, and {id: reason}."""
        rows, left_out = nova_quotas.convert(dataclasses.replace(
            _EMPTY, registered=registered, limits=limits, user_limits=user_limits))
        quotas = {}
        for table, values in rows:
            whose = [values[name] for name in ("class_name", "project_id", "user_id")
                     if name in values]
            quotas[(table, *whose, values["resource"])] = values["hard_limit"]
        return quotas, {item.id: item.reason for item in left_out}

    def test_defaults_projects_and_users(self) -> None:
        quotas, left_out = self.convert(
            [_registered("servers", 10), _registered("class:MEMORY_MB", -1)],
            [_limit("servers", 3)], [_user_limit("servers", 2)])
        self.assertEqual({
            ("quota_classes", "default", "instances"): 10,
            ("quota_classes", "default", "ram"): -1,
            ("quotas", "web", "instances"): 3,
            ("project_user_quotas", "web", "ann", "instances"): 2,
        }, quotas)
        self.assertEqual({}, left_out)

    def test_cores_are_of_both_kinds(self) -> None:
        quotas, left_out = self.convert(
            [_registered("class:VCPU", 20), _registered("class:PCPU", 20)],
            [_limit("class:VCPU", 7), _limit("class:PCPU", 7)])
        self.assertEqual({("quota_classes", "default", "cores"): 20,
                          ("quotas", "web", "cores"): 7}, quotas)
        self.assertEqual({}, left_out)

    def test_cores_that_differ(self) -> None:
        quotas, left_out = self.convert(
            [_registered("class:VCPU", 20), _registered("class:PCPU", 4)],
            [_limit("class:VCPU", 7), _limit("class:PCPU", 8)],
            [_user_limit("class:VCPU", 6)])
        self.assertEqual({}, quotas)
        self.assertEqual({
            "of class:VCPU": "nova has one quota of cores for class:VCPU 20 and class:PCPU 4",
            "of class:PCPU": "nova has one quota of cores for class:VCPU 20 and class:PCPU 4",
            "class:VCPU of web": "nova has one quota of cores for class:VCPU 7 and class:PCPU 8",
            "class:PCPU of web": "nova has one quota of cores for class:VCPU 7 and class:PCPU 8",
            "class:VCPU of ann": "nova has one quota of cores for class:VCPU 6 and class:PCPU 8",
        }, left_out)

    def test_cores_of_one_kind_are_measured_by_what_binds_the_other(self) -> None:
        registered = [_registered("class:VCPU", 20), _registered("class:PCPU", 20)]
        quotas, _ = self.convert(registered, [_limit("class:VCPU", 20)])
        self.assertEqual(20, quotas["quotas", "web", "cores"])
        quotas, left_out = self.convert(registered, [_limit("class:VCPU", 7)])
        self.assertNotIn(("quotas", "web", "cores"), quotas)
        self.assertEqual(["class:VCPU of web"], list(left_out))

    def test_clouds_without_dedicated_cores(self) -> None:
        quotas, left_out = self.convert(
            [_registered("class:VCPU", 20)], [_limit("class:VCPU", 7)])
        self.assertEqual([20, 7], list(quotas.values()))
        self.assertEqual({}, left_out)

    def test_what_nova_has_no_name_for(self) -> None:
        quotas, left_out = self.convert(
            [_registered("class:CUSTOM_GPU", 1)], [_limit("class:CUSTOM_GPU", 2)],
            [_user_limit("class:CUSTOM_GPU", 1)])
        self.assertEqual({}, quotas)
        self.assertEqual({"nova has no quota of class:CUSTOM_GPU"}, set(left_out.values()))
        self.assertEqual(3, len(left_out))

    def test_domains_and_deleted_projects(self) -> None:
        quotas, left_out = self.convert(
            [_registered("servers", 10)],
            [_limit("servers", 3, id="a", project_id=None, domain_id="d1"),
             _limit("servers", 3, id="b", project_id="gone")],
            [_user_limit("servers", 3, id="c", project_id="gone")])
        self.assertEqual([("quota_classes", "default", "instances")], list(quotas))
        self.assertEqual({
            "a": "nova has no quotas of domains", "b": "its project gone is not there",
            "c": "its project gone is not there"}, left_out)

    def test_other_services_and_regions_once_each(self) -> None:
        quotas, left_out = self.convert(
            [_registered("servers", 10, service_id="image"),
             _registered("servers", 10, id="other", region_id="R2")],
            [_limit("servers", 3, service_id="image"),
             _limit("servers", 3, service_id="image", project_id="shop")])
        self.assertEqual({}, quotas)
        reason = ("nova has quotas of the compute service in its region only; limits of this "
                  "resource: ")
        self.assertEqual({"of servers": reason + "2", "other": reason + "0"}, left_out)
