"""The services that nova asks beside Placement and Keystone: a Glance and a Neutron of tests.

Neither is what is tested: servers boot from one image and without networks. This Neutron
has nothing to show; this Glance has the image, and takes images of servers.
"""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
import uuid
from typing import Any

import fixtures

#: The image that servers boot from.
IMAGE = "1ba6e000-0000-4000-8000-000000000001"


class Neighbours(fixtures.Fixture):
    """Serves both in a thread.

    :ivar url: Glance's endpoint is there, Neutron's too.
    :ivar images: {id: image}.
    """

    url: str

    def _setUp(self) -> None:
        self.images = {IMAGE: _image(IMAGE, {"name": "cirros"}, "active")}
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and document."""
        url = urllib.parse.urlsplit(path)
        parts = url.path.strip("/").split("/")
        if parts[:2] == ["v2.0", parts[-1]] and method == "GET":
            name = parts[-1].removesuffix(".json")
            return 200, {name.replace("-", "_"): []}
        if parts[:2] == ["v2", "images"]:
            return self._answer_images(method, parts[2:], urllib.parse.parse_qs(url.query), body)
        if parts == ["v2", "schemas", "image"]:
            return 200, {"name": "image", "properties": {
                name: {} for name in self.images[IMAGE]}, "additionalProperties": {}}
        if parts == [""]:
            return 300, {"versions": [
                {"id": "v2.0", "status": "CURRENT", "links": [
                    {"rel": "self", "href": f"{self.url}/v2.0"}]},
                {"id": "v2.9", "status": "CURRENT", "links": [
                    {"rel": "self", "href": f"{self.url}/v2/"}]}]}
        return 404, _refusal(f"{method} {path} is not of this stand-in")

    def _answer_images(
        self, method: str, rest: list[str], query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any]:
        if not rest and method == "GET":
            return 200, {"images": [
                image for image in self.images.values()
                if all(image.get(name) in values for name, values in query.items()
                       if name not in ("limit", "marker", "sort", "sort_key", "sort_dir"))]}
        if not rest and method == "POST":
            id_ = body.get("id") or str(uuid.uuid4())
            self.images[id_] = _image(id_, body, "active")
            return 201, self.images[id_]
        image = self.images.get(rest[0]) if rest else None
        if image is None:
            return 404, _refusal("no such image")
        return (200, image) if method == "GET" else (204, None)


def _refusal(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": 404}}


def _image(id_: str, values: dict[str, Any], status: str) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {
        "visibility": "public", "container_format": "bare", "disk_format": "raw", "min_disk": 0,
        "min_ram": 0, "protected": False, "tags": [], "owner": None, **values, "id": id_,
        "status": status, "size": 1024, "checksum": "0" * 32, "created_at": at,
        "updated_at": at, "file": f"/v2/images/{id_}/file", "self": f"/v2/images/{id_}",
        "schema": "/v2/schemas/image"}


def _handler(neighbours: Neighbours) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(sent) if sent else {}
            except ValueError:
                body = {}
            status, document = neighbours.answer(self.command, self.path, body)
            content = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    return Handler
