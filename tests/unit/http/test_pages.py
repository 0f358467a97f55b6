"""Pages of lists."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.validation import InvalidQuery
from tests import base


class TestPages(base.TestCase):
    def test_parse(self) -> None:
        for query, page in (
            ({}, pages.Page(None, None)),
            ({"limit": ["5"]}, pages.Page(5, None)),
            ({"limit": ["5", "7"], "marker": ["a", "b"]}, pages.Page(7, "b")),
            ({"marker": [""]}, pages.Page(None, None)),
            ({"limit": ["1000"]}, pages.Page(1000, None)),
        ):
            for parse in (pages.parse_page, pages.parse_cut_page):
                self.assertEqual(page, parse(query, 1000), query)

    def test_a_larger_one(self) -> None:
        query = {"limit": ["1001"], "marker": ["a"]}
        self.assertRaises(InvalidQuery, pages.parse_page, query, 1000)
        self.assertEqual(pages.Page(1000, "a"), pages.parse_cut_page(query, 1000))

    def test_one_more_is_read(self) -> None:
        self.assertEqual(6, pages.Page(5, None).size_to_read)
        self.assertIsNone(pages.Page(None, None).size_to_read)

    def test_the_next_url_keeps_the_query(self) -> None:
        query = {"limit": ["5"], "name": ["a b", "c"], "marker": ["old"]}
        self.assertEqual(
            "/v3/limits?limit=5&name=a+b&name=c&marker=new",
            pages.make_next_url("/v3/limits", query, "new"))
