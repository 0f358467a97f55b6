"""Pages of lists."""

from __future__ import annotations

from placement_core.http import pages
from tests import base


class TestPages(base.TestCase):
    def test_parse(self) -> None:
        for query, page in (
            ({}, pages.Page(None, None)),
            ({"limit": ["5"]}, pages.Page(5, None)),
            ({"limit": ["5", "7"], "marker": ["a", "b"]}, pages.Page(7, "b")),
            ({"marker": [""]}, pages.Page(None, None)),
            ({"limit": ["999999999"]}, pages.Page(1000, None)),
        ):
            self.assertEqual(page, pages.parse_page(query, 1000), query)

    def test_one_more_is_read(self) -> None:
        self.assertEqual(6, pages.Page(5, None).size_to_read)
        self.assertIsNone(pages.Page(None, None).size_to_read)

    def test_the_next_url_keeps_the_query(self) -> None:
        query = {"limit": ["5"], "name": ["a b", "c"], "marker": ["old"]}
        self.assertEqual(
            "/v3/limits?limit=5&name=a+b&name=c&marker=new",
            pages.make_next_url("/v3/limits", query, "new"))
