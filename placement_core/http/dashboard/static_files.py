"""Static files, with a digest of their content in the name: a browser may keep them for good.

A file refers to others by ``"./NAME"``, in quotes. The names are replaced by those with the
digests, so that a change of a file changes the names of all that refer to it.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re

from placement_core import errors
from placement_core.http.operations import Call, Reply

_FOLDER = pathlib.Path(__file__).with_name("static")
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml"}
_REFERENCE = re.compile(rb"""(?<=["'])\./([a-z0-9_-]+\.(?:css|js|svg))(?=["'])""")
_WITH_DIGEST = re.compile(r"([a-z0-9_-]+)\.[0-9a-f]{16}(\.(?:css|js|svg))")
_HEADERS = (("Cache-Control", "public, max-age=31536000, immutable"),)


class StaticFiles:
    """The files of a folder.

    :ivar names: {name: name with the digest}.
    :ivar contents: {name with the digest: content}.
    :raises ValueError: files refer to each other in a circle.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.names: dict[str, str] = {}
        self.contents: dict[str, bytes] = {}
        for path in sorted(folder.iterdir()):
            if path.suffix in _MEDIA_TYPES:
                self._add(path, ())

    def _add(self, path: pathlib.Path, referring: tuple[str, ...]) -> str:
        """Add a file after those that it refers to; return its name with the digest."""
        if path.name in referring:
            raise ValueError(f"static files refer to each other: {', '.join(referring)}")
        if path.name not in self.names:
            def replace(match: re.Match[bytes]) -> bytes:
                name = self._add(path.with_name(match[1].decode()), (*referring, path.name))
                return f"./{name}".encode()

            content = _REFERENCE.sub(replace, path.read_bytes())
            digest = hashlib.blake2b(content, digest_size=8).hexdigest()
            self.names[path.name] = f"{path.stem}.{digest}{path.suffix}"
            self.contents[self.names[path.name]] = content
        return self.names[path.name]


@functools.cache
def load() -> StaticFiles:
    """Return the files of the dashboard."""
    return StaticFiles(_FOLDER)


def show(call: Call) -> Reply:
    """Send a static file.

    While the hosts of a service are upgraded, a page of another release asks for its files here.
    Those of this release are better than none, and nobody keeps them under the other name.
    """
    files, name = load(), call.path["name"]
    other = _WITH_DIGEST.fullmatch(name)
    present_name = files.names.get("".join(other.groups()), name) if other else name
    if present_name not in files.contents:
        raise errors.NotFound("There is no such file.")
    return Reply(
        body=files.contents[present_name],
        media_type=_MEDIA_TYPES[pathlib.PurePath(present_name).suffix],
        headers=_HEADERS if present_name == name else ())
