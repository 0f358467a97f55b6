"""What sources are called."""

from __future__ import annotations

from placement_core.takeover import sources
from tests import base


class TestLabels(base.TestCase):
    def test_it_is_the_host_and_the_database(self):
        for url in ("mysql+pymysql://placement:secret@db1/placement",
                    "mysql://db1/placement?charset=utf8"):
            self.assertEqual("db1/placement", sources.make_label(url))
        self.assertEqual("db1:3307/placement",
                         sources.make_label("mysql://a:b@db1:3307/placement"))

    def test_a_long_one_is_a_digest(self):
        labels = {sources.make_label(f"postgresql://{name}.example.org:5432/placement")
                  for name in ("east", "west", "east")}
        self.assertEqual(2, len(labels))
        self.assertEqual({sources.LONGEST_LABEL}, {len(label) for label in labels})

    def test_what_is_no_url_has_none(self):
        self.assertEqual("", sources.make_label("nonsense"))
