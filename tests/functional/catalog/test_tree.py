"""The tree of domains and projects, compared with a walk from parent to parent."""

import random

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import domains, errors, projects, tables, tree
from placement_core.plugin_api.catalog import Node
from tests import base, databases


class Naive:
    """A tree as one would keep it in one's head: {node: its parent}."""

    def __init__(self):
        self.parents = {}

    def lineage(self, node):
        above = []
        while node is not None:
            above.append(node)
            node = self.parents[node]
        return above[::-1]

    def subtree(self, node):
        return {each for each in self.parents if node in self.lineage(each)}

    def depth(self):
        return max((len(self.lineage(each)) for each in self.parents), default=0)


class TreeTestCase(base.DatabaseTestCase):

    def lineage(self, node_id):
        with db.read_once(self.ctx) as session:
            return tree.lineage(session, node_id)

    def subtree(self, node_id):
        with db.read_once(self.ctx) as session:
            return tree.subtree(session, node_id)

    def depth(self):
        with db.read_once(self.ctx) as session:
            return tree.depth(session)


@databases.on_each_database
class TestTree(TreeTestCase):

    def test_of_a_new_service(self):
        self.assertEqual(0, self.depth())
        for id_ in ("no", "", "\0", "\ud800", "x" * 9999):
            self.assertEqual((Node(id_, None),), self.lineage(id_))
            self.assertEqual((Node(id_, None),), self.subtree(id_))

    def test_ids_to_the_letter(self):
        domains.create(self.ctx, name="d", id="abc")
        for id_ in ("ABC", "abc ", "abc\n"):
            self.assertEqual((Node(id_, None, is_domain=False),), self.lineage(id_))
        self.assertEqual((Node("abc", None, is_domain=True),), self.lineage("abc"))

    def test_a_leaf_that_goes_leaves_no_trace(self):
        domains.create(self.ctx, name="d", id="d")
        projects.create(self.ctx, name="p", id="p", domain_id="d")
        projects.delete(self.ctx, "p")
        self.assertEqual((Node("p", None),), self.lineage("p"))
        self.assertEqual((Node("d", None, is_domain=True),), self.subtree("d"))
        self.assertEqual(1, self.depth())

    def test_random_changes(self):
        for seed in (1, 2):
            self.play(random.Random(seed), f"s{seed}")

    def play(self, chance, prefix):
        naive = Naive()
        roots = [f"{prefix}-domain{number}" for number in range(2)]
        for root in roots:
            domains.create(self.ctx, name=root, id=root)
            naive.parents[root] = None
        moves = 0
        for number in range(150):
            nodes = sorted(naive.parents)
            node = chance.choice([each for each in nodes if each not in roots] or [None])
            domain = naive.lineage(node)[0] if node else None
            action = chance.choice(("create", "create", "move", "move", "delete"))
            if action == "create" or node is None:
                parent = chance.choice(nodes)
                made = f"{prefix}-{number}"
                projects.create(
                    self.ctx, name=made, id=made, parent_id=parent,
                    domain_id=naive.lineage(parent)[0])
                naive.parents[made] = parent
            elif action == "move":
                parent = chance.choice(sorted(naive.subtree(domain)))
                if node in naive.lineage(parent):
                    self.assertRaises(
                        errors.Misplaced, projects.update, self.ctx, node, parent_id=parent)
                else:
                    projects.update(self.ctx, node, parent_id=parent)
                    naive.parents[node] = parent
                    moves += 1
            elif naive.subtree(node) == {node}:
                projects.delete(self.ctx, node)
                del naive.parents[node]
            if number % 25 == 24:
                self.compare(naive)
        self.assertGreater(moves, 15)
        self.assertGreater(naive.depth(), 4)
        for root in roots:
            domains.update(self.ctx, root, enabled=False)
            domains.delete(self.ctx, root)
        with db.read_once(self.ctx) as session:
            self.assertEqual([], session.execute(sa.select(tables.catalog_ancestors)).all())

    def compare(self, naive):
        for node, parent in naive.parents.items():
            self.assertEqual(
                [(each, naive.parents[each], naive.parents[each] is None)
                 for each in naive.lineage(node)],
                [(each.id, each.parent_id, each.is_domain) for each in self.lineage(node)])
            found = self.subtree(node)
            self.assertEqual((node, parent), (found[0].id, found[0].parent_id))
            self.assertEqual(sorted(naive.subtree(node)), sorted(each.id for each in found))
            seen = {node}
            for each in found[1:]:
                self.assertIn(each.parent_id, seen)
                self.assertEqual(naive.parents[each.id], each.parent_id)
                seen.add(each.id)
        self.assertEqual(naive.depth(), self.depth())

    def test_a_damaged_table_keeps_nobody_busy(self):
        domains.create(self.ctx, name="d", id="d")
        for id_, parent in (("a", "d"), ("b", "a")):
            projects.create(self.ctx, name=id_, id=id_, domain_id="d", parent_id=parent)
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.catalog_ancestors), [
                {"descendant_id": "a", "ancestor_id": "b", "distance": 1}])
            session.execute(sa.update(tables.catalog_projects).where(
                tables.catalog_projects.c.id == "a").values(parent_id="b"))
        for node in ("a", "b"):
            self.assertEqual({"d", "a", "b"}, {each.id for each in self.lineage(node)})
            self.assertEqual({"a", "b"}, {each.id for each in self.subtree(node)})
        self.assertEqual(3, len(self.subtree("d")))


@databases.on_each_database
class TestLargeTree(TreeTestCase):
    """A domain with 5,000 projects on four levels below it."""

    def setUp(self):
        super().setUp()
        domains.create(self.ctx, name="d", id="d")
        # 5 teams of 10 of 10 of 9, and the rest in a row.
        lineages = {"d": ["d"]}
        level = ["d"]
        for width in (5, 10, 10, 9):
            level = [f"{parent}-{number}" for parent in level for number in range(width)]
            lineages |= {node: [*lineages[node.rpartition("-")[0]], node] for node in level}
        self.leaf = level[-1]
        self.count = len(lineages)
        del lineages["d"]
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.catalog_projects), [
                {"id": node, "name": node, "domain_id": "d", "parent_id": above[-2],
                 "description": "", "enabled": True} for node, above in lineages.items()])
            session.execute(sa.insert(tables.catalog_ancestors), [
                {"descendant_id": node, "ancestor_id": each, "distance": distance}
                for node, above in lineages.items()
                for distance, each in enumerate(reversed(above))])
        if self.kind != "sqlite":
            with self.database.autocommit.connect() as connection:
                what = "ANALYZE" if self.kind == "postgresql" else "ANALYZE TABLE"
                separator = ";" if self.kind == "postgresql" else ""
                for table in ("catalog_ancestors", "catalog_projects"):
                    connection.execute(sa.text(f"{what} {table}{separator}"))

    def test_answers(self):
        self.assertGreater(self.count, 5000)
        self.assertEqual(5, self.depth())
        self.assertEqual(5, len(self.lineage(self.leaf)))
        self.assertEqual(self.count, len(self.subtree("d")))
        self.assertEqual(10, len(self.subtree(self.leaf.rpartition("-")[0])))

    def test_branches_are_index_look_ups(self):
        seen = []

        def note(_connection, _cursor, statement, parameters, *_rest):
            seen.append((statement, parameters))

        sa.event.listen(self.database.autocommit, "before_cursor_execute", note)
        self.lineage(self.leaf)
        self.subtree(self.leaf.rpartition("-")[0])
        sa.event.remove(self.database.autocommit, "before_cursor_execute", note)
        self.assertEqual(2, len(seen))
        for statement, parameters in seen:
            for step in self.plan(statement, parameters):
                self.assertNotRegex(step, self.whole_tables[self.kind])

    #: How each database says that it reads a whole table or index.
    whole_tables = {"sqlite": r"\bSCAN\b", "postgresql": "Seq Scan", "mysql": r"\b(ALL|index)\b"}

    def plan(self, statement, parameters):
        explain = "EXPLAIN QUERY PLAN" if self.kind == "sqlite" else "EXPLAIN"
        with self.database.autocommit.connect() as connection:
            found = connection.exec_driver_sql(f"{explain} {statement}", parameters).mappings()
            column = {"sqlite": "detail", "postgresql": "QUERY PLAN", "mysql": "type"}[self.kind]
            return [row[column] for row in found]

    def test_a_move_of_many(self):
        projects.create(self.ctx, name="new", id="new", domain_id="d")
        projects.update(self.ctx, "d-0", parent_id="new")
        self.assertEqual(
            ["d", "new", "d-0", "d-0-1"], [each.id for each in self.lineage("d-0-1")])
        self.assertEqual(6, self.depth())
        self.assertEqual(self.count + 1, len(self.subtree("d")))
        self.assertEqual((self.count - 1) // 5 + 1, len(self.subtree("new")))
