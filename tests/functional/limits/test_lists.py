from placement_core.limits import errors, limits, registered
from placement_core.limits.records import Filter
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestFilters(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.names = ["cores", "class:VCPU", "class:CUSTOM_A", "CLASS:b", "a%b", "a_b", "a*b",
                      "a[b]c", "a/b", "a?b", "aXb", "a\\b"]
        for name in self.names:
            self.register(name, 10)
        self.register("cores", 10, region_id=None)
        self.register("cores", 10, region_id=self.two)
        self.register("nets", 10, service_id=self.network, region_id=None)

    def found(self, *filters):
        return [each.resource_name for each in registered.list_(
            self.ctx, [Filter("resource_name", *each) for each in filters]
            + cases.equals(region_id=self.one))]

    def test_operators(self):
        for operator, value, names in (
            ("equals", "cores", ["cores"]), ("equals", "Cores", []), ("equals", "core", []),
            ("iequals", "CORES", ["cores"]), ("iequals", "core", []),
            ("contains", "or", ["cores"]), ("contains", "OR", []),
            ("contains", "ss:", ["class:VCPU", "class:CUSTOM_A"]),
            ("icontains", "OR", ["cores"]), ("icontains", "S:", self.names[1:4]),
            ("startswith", "class", self.names[1:3]), ("startswith", "CLASS", ["CLASS:b"]),
            ("startswith", "ores", []), ("istartswith", "cLaSs", self.names[1:4]),
            ("istartswith", "ores", []),
            ("endswith", "es", ["cores"]), ("endswith", "ES", []), ("endswith", "core", []),
            ("iendswith", "ES", ["cores"]), ("iendswith", "vcpu", ["class:VCPU"]),
            ("contains", "", self.names), ("equals", "", []),
        ):
            self.assertEqual(names, self.found((operator, value)), (operator, value))

    def test_no_mark_is_special(self):
        for mark, name in (("%", "a%b"), ("_", "a_b"), ("*", "a*b"), ("[b]", "a[b]c"),
                           ("/", "a/b"), ("?", "a?b"), ("\\", "a\\b")):
            for operator in ("contains", "icontains"):
                found = [each for each in self.found((operator, mark)) if each != "class:CUSTOM_A"]
                self.assertEqual([name], found, (operator, mark))
        for operator in ("startswith", "endswith", "istartswith", "iendswith"):
            for mark in ("%", "_", "*", "[", "?"):
                self.assertEqual([], self.found((operator, mark)), (operator, mark))

    def test_filters_are_anded(self):
        self.assertEqual(["class:VCPU"], self.found(
            ("startswith", "class"), ("contains", "V"), ("icontains", "PU")))
        self.assertEqual([], self.found(("equals", "cores"), ("equals", "servers")))

    def test_values_that_no_row_can_have(self):
        for operator in ("equals", "icontains", "startswith"):
            for value in ("\0", "\ud800", "x" * 9999, "' OR 1=1 --"):
                self.assertEqual([], self.found((operator, value)))
        for filters in (cases.equals(region_id=""), cases.equals(service_id="")):
            self.assertEqual([], registered.list_(self.ctx, filters))

    def test_regions(self):
        def found(operator, value):
            return [(each.region_id, each.resource_name) for each in registered.list_(
                self.ctx, [Filter("region_id", operator, value)])]

        self.assertEqual([(None, "cores"), (None, "nets")], found("equals", None))
        self.assertEqual([(self.two, "cores")], found("equals", self.two))
        self.assertEqual([], found("equals", "None"))
        self.assertEqual([(self.two, "cores")], found("endswith", "Two"))
        # What has no region has none that contains anything.
        self.assertEqual({self.one, self.two}, {region for region, _ in found("contains", "")})
        self.assertEqual(len(self.names) + 1, len(found("istartswith", "REGION")))

    def test_services(self):
        self.assertEqual(["nets"], [each.resource_name for each in registered.list_(
            self.ctx, cases.equals(service_id=self.network))])


@databases.on_each_database
class TestLists(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.register("cores")
        self.register("servers")
        self.register("cores", region_id=None)
        self.limits = self.set_many([
            self.item(self.top, 1), self.item(self.domain, 2), self.item(self.child, 3),
            self.item(self.top, 4, "servers"), self.item(self.top, 5, region_id=None),
            self.item(self.far_domain, 6)])

    def found(self, filters=(), **options):
        return [each.resource_limit for each in limits.list_(self.ctx, filters, **options)]

    def test_filters(self):
        for filters, found in (
            ({"project_id": self.top}, [1, 4, 5]), ({"domain_id": self.domain}, [2]),
            ({"project_id": self.domain}, []), ({"domain_id": self.top}, []),
            ({"project_id": self.top, "resource_name": "cores"}, [1, 5]),
            ({"project_id": self.top, "region_id": self.one}, [1, 4]),
            ({"project_id": self.top, "region_id": None}, [5]),
            ({"project_id": self.top, "service_id": self.compute, "region_id": self.one}, [1, 4]),
            ({"service_id": self.network}, []), ({"project_id": "no"}, []), ({}, [*range(1, 7)]),
        ):
            self.assertEqual(found, self.found(cases.equals(**filters)), filters)
        self.assertEqual([4], self.found([Filter("resource_name", "icontains", "SERV")]))

    def test_visible(self):
        self.assertEqual([], self.found(visible=[]))
        self.assertEqual([], self.found(visible=["no"]))
        self.assertEqual([1, 2, 4, 5], self.found(visible={self.top, self.domain}))
        self.assertEqual([3], self.found(cases.equals(project_id=self.child),
                                         visible=[self.child, self.top]))
        self.assertEqual([], self.found(cases.equals(project_id=self.child), visible=[self.top]))
        self.assertEqual([6], self.found(visible=[f"n{n}" for n in range(40000)]
                                         + [self.far_domain]))

    def test_pages(self):
        seen, marker = [], None
        while page := limits.list_(self.ctx, limit=2, marker=marker):
            self.assertLessEqual(len(page), 2)
            seen += page
            marker = page[-1].id
        self.assertEqual(self.limits, seen)
        self.assertEqual([], self.found(marker=self.limits[-1].id))
        self.assertEqual([], self.found(limit=0))
        self.assertEqual([4, 5], self.found(
            cases.equals(project_id=self.top), marker=self.limits[0].id, limit=9))
        # A marker need not pass the filters itself.
        self.assertEqual([3], self.found(
            cases.equals(project_id=self.child), marker=self.limits[1].id))

    def test_pages_while_others_write(self):
        first = limits.list_(self.ctx, limit=3)
        self.delete(first[0])
        self.set_limit(self.other, 7)
        self.assertEqual([4, 5, 6, 7], self.found(marker=first[-1].id))

    def test_unknown_markers(self):
        gone = self.limits[0]
        self.delete(gone)
        for marker in (gone.id, "no", "", "\0", "\ud800", "x" * 9999):
            for function in (limits.list_, registered.list_):
                error = self.assertRaises(
                    errors.UnknownMarker, function, self.ctx, marker=marker)
                self.assertEqual("limits.unknown_marker", error.code)
