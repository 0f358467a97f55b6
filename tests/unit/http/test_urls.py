"""URLs as callers see them."""

from __future__ import annotations

from typing import Any

from pyramid.request import Request

from placement_core.http import urls
from tests import base


def environ(**changes: str) -> dict[str, Any]:
    return Request.blank("/").environ | {
        "wsgi.url_scheme": "https", "HTTP_HOST": "api.example", **changes}


class TestUrls(base.TestCase):
    def test_the_port_that_the_caller_names_stays(self) -> None:
        self.assertEqual("https://api.example", urls.get_host_url(environ()))
        self.assertEqual(
            "https://api.example:443", urls.get_host_url(environ(HTTP_HOST="api.example:443")))

    def test_without_a_host(self) -> None:
        self.assertEqual("https://node:8778", urls.get_host_url(environ(
            HTTP_HOST="", SERVER_NAME="node", SERVER_PORT="8778")))

    def test_the_mount_point_is_quoted(self) -> None:
        self.assertEqual("", urls.get_mount_path(environ(SCRIPT_NAME="")))
        mounted = environ(SCRIPT_NAME="/m\xc3\xb6 x")  # WSGI: UTF-8 as Latin-1.
        self.assertEqual("/m%C3%B6%20x", urls.get_mount_path(mounted))
        self.assertEqual("https://api.example/m%C3%B6%20x", urls.get_root_url(mounted))

    def test_the_query_stays_but_for_what_no_url_has(self) -> None:
        request = Request(environ(
            SCRIPT_NAME="/m", PATH_INFO="/v3/limits", QUERY_STRING='a=%20&b="c"&d?'))
        self.assertEqual(
            "https://api.example/m/v3/limits?a=%20&b=%22c%22&d?", urls.get_request_url(request))
