from placement_core import errors
from placement_core.quota import resources
from placement_core.quota.errors import UnknownResource
from tests import base


class TestParse(base.TestCase):

    def assert_refused(self, *listed):
        return str(self.assertRaises(errors.ConfigurationError, resources.parse, listed))

    def test_units(self):
        parsed = resources.parse(["cores=VCPU+PCPU", " ram = MEMORY_MB ", "servers=instances"])
        self.assertEqual(frozenset({"VCPU", "PCPU"}), parsed.units("cores"))
        self.assertEqual(frozenset({"MEMORY_MB"}), parsed.units("ram"))
        self.assertEqual(frozenset({"instances"}), parsed.units("servers"))

    def test_what_makes_no_sense(self):
        for item in ("cores", "=VCPU", "cores=", "cores=VCPU+", "cores=vcpu", "cores=V-CPU"):
            self.assertIn(f"[quota] resource_map: {item}: expected name=unit+unit",
                          self.assert_refused(item))

    def test_a_name_that_is_there_twice(self):
        self.assertEqual("[quota] resource_map: cores is there twice",
                         self.assert_refused("cores=VCPU", "cores=PCPU"))


class TestResources(base.TestCase):
    map = resources.parse(["cores=VCPU+PCPU", "servers=instances", "consumers=consumers"])

    def test_a_resource_class_by_its_own_name(self):
        self.assertEqual(frozenset({"CUSTOM_GOLD"}), self.map.units("class:CUSTOM_GOLD"))
        self.assertEqual("class:CUSTOM_GOLD", self.map.name_of("CUSTOM_GOLD"))

    def test_names_that_stand_for_nothing(self):
        for name in ("ram", "class:", "class:gold", "subclass:GOLD", "class:" + "A" * 256, ""):
            self.assertFalse(self.map.knows(name), name)
            self.assertRaises(UnknownResource, self.map.units, name)

    def test_what_claims_of_placement_are_all_of(self):
        self.assertEqual(
            {"cores": True, "consumers": True, "servers": False, "class:VCPU": True, "ram": False},
            {name: self.map.is_guarded(name)
             for name in ("cores", "consumers", "servers", "class:VCPU", "ram")})
