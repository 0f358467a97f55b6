"""A cloud as the enforcer library sees it: who exists, limits, and a count of requests.

It answers as Keystone does (flat, without ETags) or as placement_core does.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import json
import pathlib
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import fixtures
from oslo_config import cfg

from tests.unit.enforcer import rules

EFFECTIVE = "/capacity/v1/limits/effective"

COMPUTE = {"id": "c" * 32, "type": "compute", "name": "nova"}
ENDPOINT = {"id": "e" * 32, "service_id": COMPUTE["id"], "region_id": "here",
            "interface": "public", "url": "http://nova"}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A request that came in.

    :ivar port: the client's, which tells connections apart.
    """

    path: str
    query: dict[str, str]
    conditional: bool
    status: int
    port: int


def file(test: Any, **options: Any) -> str:
    """Return a file with options of ``[oslo_limit]``, without those that are None.

    :param test: a test or fixture; the file goes with it.
    """
    lines = [f"{name} = {value}" for name, value in options.items() if value is not None]
    path = pathlib.Path(test.useFixture(fixtures.TempDir()).path, "service.conf")
    overcommit = ("[overcommit]", f"factor = {rules.OVERCOMMIT_PERCENT / 100}")
    path.write_text("\n".join(["[oslo_limit]", *lines, *overcommit]))
    return str(path)


def configuration(path: str) -> cfg.ConfigOpts:
    """Return the configuration of a service that has this file."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[path], default_config_dirs=[])
    return conf


class Cloud(fixtures.Fixture):
    """A server whose attributes a test changes as it likes.

    :ivar registered: {resource name: default} of the compute service, here.
    :ivar limits: {node id: {resource name: limit}}.
    :ivar parents: {node id: the one above it; None for a domain}.
    :ivar elsewhere: registered limits of other regions: [(region, name, default)].
    :ivar model: the enforcement model's name.
    :ivar capacity: it is placement_core.
    :ivar etags: answers can be asked about.
    """

    def __init__(self, *, capacity: bool = True) -> None:
        self.capacity = self.etags = capacity
        self.model = "flat"
        self.region: str | None = "here"
        self.registered: dict[str, int] = {}
        self.limits: dict[str, dict[str, int]] = {}
        self.parents: dict[str, str | None] = {}
        self.elsewhere: list[tuple[str | None, str, int]] = []
        self.services = [dict(COMPUTE)]
        self.regions = ["here", "there"]
        self.endpoints: list[dict[str, Any]] = [dict(ENDPOINT)]
        self.asked: list[Asked] = []

    def _setUp(self) -> None:
        server = _Server(("127.0.0.1", 0), _Handler)
        server.cloud = self
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v3"

    def conf(self, **options: Any) -> cfg.ConfigOpts:
        """Return a service's configuration; ``None`` leaves an option out."""
        return configuration(self.file(**options))

    def file(self, **options: Any) -> str:
        """Return a service's configuration file."""
        return file(self, **{
            "auth_type": "admin_token", "endpoint": self.url, "token": "admin",
            "endpoint_id": ENDPOINT["id"], **options})

    def answer(self, path: str, query: dict[str, str]) -> Any:
        """Return the document of a path; None: there is none."""
        if path == EFFECTIVE:
            return self._effective(query) if self.capacity else None
        if path == "/v3":
            return {"version": {"id": "v3.14", "status": "stable", "links": [
                {"rel": "self", "href": self.url}]}}
        if path == "/v3/limits/model":
            return {"model": {"name": self.model, "description": ""}}
        if path == "/v3/registered_limits":
            return {"registered_limits": [
                {"id": name, "service_id": COMPUTE["id"], "region_id": region,
                 "resource_name": name, "default_limit": value}
                for region, name, value in [*self.elsewhere, *(
                    (self.region, *pair) for pair in self.registered.items())]
                if query.get("region_id", region) == region
                and query.get("service_id") == COMPUTE["id"]], "links": {}}
        if path == "/v3/limits":
            return {"limits": [
                {"id": name, "service_id": COMPUTE["id"], "region_id": self.region,
                 "resource_name": name, "resource_limit": value, "project_id": node}
                for node, limits in self.limits.items() for name, value in limits.items()
                if query.get("project_id", node) == node
                and query.get("region_id", self.region) == self.region
                and query.get("service_id") == COMPUTE["id"]], "links": {}}
        return self._catalog(path.removeprefix("/v3/"), query)

    def _effective(self, query: dict[str, str]) -> Any:
        project_id = query.get("project_id")
        lineage = rules.lineage(self.parents, project_id) if project_id else []
        matches = (query["service_id"], query.get("region_id")) == (COMPUTE["id"], self.region)
        limits = {each: self.limits[each] for each in lineage if matches and each in self.limits}
        return {
            "model": self.model,
            "lineage": [{"id": each, "parent_id": self.parents.get(each),
                         "is_domain": self.parents.get(each, "") is None} for each in lineage],
            "defaults": self.registered if matches else {},
            "limits": limits,
            "subtrees": {} if self.model == "flat" else {
                each: rules.subtree(self.parents, each) for each in limits},
        }

    def _catalog(self, path: str, query: dict[str, str]) -> Any:
        kind, _, id_ = path.partition("/")
        known: list[dict[str, Any]] = {
            "services": self.services, "endpoints": self.endpoints,
            "regions": [{"id": each} for each in self.regions]}.get(kind, [])
        if not id_:
            return {kind: list(_matching(known, query)), "links": {}}
        found = [each for each in known if each["id"] == id_]
        return {kind.removesuffix("s"): found[0]} if found else None


def _matching(known: list[dict[str, Any]], query: dict[str, str]) -> Iterator[dict[str, Any]]:
    for each in known:
        if all(each.get(name) == value for name, value in query.items()):
            yield each


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    cloud: Cloud


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else each answer waits for the acknowledgement of its headers.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        cloud = self.server.cloud
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        document = cloud.answer(url.path.rstrip("/"), query)
        status = 404 if document is None else 200
        body = json.dumps(document or {"error": {"code": 404, "message": "?"}}).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        sent = self.headers.get("If-None-Match")
        if cloud.etags and sent == etag:
            status, body = 304, b""
        self.send_response(status)
        if cloud.etags:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cloud.asked.append(
            Asked(url.path, query, sent is not None, status, self.client_address[1]))
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""
