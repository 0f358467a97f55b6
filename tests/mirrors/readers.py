"""Readers of the feed, each of which has a mirror of what it was answered."""

from __future__ import annotations

import collections
import itertools
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from doc import mirror

#: {(kind, id): the document}.
Objects = Mapping[tuple[str, str], Any]

RESTORED = "capacity.changes.restored"
_PAUSE_SECONDS = 0.1
#: Links name the API process that was asked.
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class Reader(mirror.Mirror):
    """The mirror of the documents, which asks one API process after the other.

    :ivar name: in what is wrong.
    :ivar wrong: what must not be, in sentences.
    :ivar revision: that of the last answer.
    :ivar restorations: how often it was told that the database was restored.
    """

    def __init__(
        self, name: str, ports: Sequence[int], *, limit: int, project: str | None = None,
        start_seconds: float = 0,
    ) -> None:
        """Read nothing yet.

        :param limit: how many objects an answer has.
        :param project: of which it sees the objects; None: it sees all.
        :param start_seconds: after so many seconds it begins.
        """
        super().__init__("", "admin")
        query = f"limit={limit}" + (f"&project_id={project}" if project else "")
        self._urls = itertools.cycle(
            [f"http://127.0.0.1:{port}/capacity/v1/changes?{query}" for port in ports])
        # A connection has one worker; another one each time.
        self._session.headers["Connection"] = "close"
        self._session.hooks["response"].append(self._note)
        self.revision = 0
        self._start_seconds = start_seconds
        self.name = name
        self.project = project
        self.wrong: list[str] = []
        self.restorations = 0

    def follow(self, wait: float = 1) -> bool:
        """Apply what changed; return whether there is more.

        :raises requests.RequestException: the process does not answer, or says that it cannot.
        """
        self._url = next(self._urls)
        more: bool = super().follow(wait)
        if not more and self.project is None and self._after is not None:
            self.wrong += check_sums(self.name, self.objects)
        return more

    def run(self, stopped: threading.Event) -> None:
        """Follow until it is over."""
        stopped.wait(self._start_seconds)
        while not stopped.is_set():
            try:
                self.follow()
            except requests.RequestException:
                time.sleep(_PAUSE_SECONDS)

    def catch_up(self) -> None:
        """Follow until there is nothing more."""
        while self.follow(0):
            pass

    def _note(self, response: requests.Response, *_args: Any, **_options: Any) -> None:
        if response.status_code == 410:
            code = response.json()["errors"][0]["code"]
            if code == RESTORED:
                self.restorations += 1
            else:
                self.wrong.append(f"{self.name} has to begin anew: {code}")
            self.revision = 0
        elif response.status_code == 200:
            revision = response.json()["revision"]
            if revision < self.revision:
                self.wrong.append(
                    f"{self.name}: revision {revision} came after {self.revision}")
            self.revision = revision
        elif response.status_code != 503:
            self.wrong.append(f"{self.name}: {response.status_code} {response.text}")


def check_sums(name: str, objects: Objects) -> list[str]:
    """Compare what providers and projects use with the sum of what consumers hold.

    A mirror of one moment has no difference, although all of them change all the time.
    """
    used: collections.Counter[tuple[str, str]] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    stored: dict[tuple[str, str], int] = {}
    stored_counts: dict[str, int] = {}
    for (kind, id_), document in objects.items():
        if kind == "consumer":
            counts[document["project_id"]] += 1
            for provider, share in document["allocations"].items():
                for resource_class, amount in share["resources"].items():
                    used[provider, resource_class] += amount
        elif kind == "provider":
            stored.update({
                (id_, resource_class): item["used"]
                for resource_class, item in document["inventories"].items() if item["used"]})
        elif kind == "project_usage":
            stored_counts[id_] = document["consumer_count"]
    return [
        f"{name}: {what} {sorted(set(actual.items()) ^ set(sums.items()))}"
        for what, actual, sums in (
            ("usage of providers", stored, used), ("consumers of projects", stored_counts, counts))
        if actual != sums]


class Listing:
    """What the service lists.

    :param port: of the API process to ask.
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.headers.update({
            "X-Auth-Token": "admin", "X-Roles": "admin",
            "OpenStack-API-Version": "placement 1.39"})

    def read(self, project: str | None = None) -> dict[tuple[str, str], Any]:
        """Return all objects, or those that a project owns."""
        objects: dict[tuple[str, str], Any] = {}
        for kind, path, member, key in (
                ("provider", "/capacity/v1/providers", "providers", "uuid"),
                ("resource_class", "/resource_classes", "resource_classes", "name"),
                ("consumer", "/capacity/v1/consumers", "consumers", "uuid"),
                ("claim", "/capacity/v1/claims", "claims", "consumer_uuid"),
                ("project_usage", "/capacity/v1/usages", "usages", "project_id"),
                ("registered_limit", "/v3/registered_limits", "registered_limits", "id"),
                ("limit", "/v3/limits", "limits", "id"),
                ("user_limit", "/capacity/v1/limits/users", "user_limits", "id"),
                ("lease", "/v1/leases", "leases", "id")):
            for document in self._list(path, member):
                objects[kind, document[key]] = document
        for name in self._list("/traits", "traits"):
            objects["trait", name] = {"name": name}
        for (kind, name) in list(objects):
            if kind == "resource_class":
                objects[kind, name] = {"name": name}
        return {key: document for key, document in objects.items()
                if project is None or document.get("project_id") == project}

    def read_revision(self) -> int:
        """Return how many transactions there were."""
        revision: int = self._get("/capacity/v1/changes?after=now")["revision"]
        return revision

    def _list(self, path: str, member: str) -> list[Any]:
        documents: list[Any] = []
        following: str | None = path
        while following is not None:
            answer = self._get(following)
            documents += answer[member]
            links = answer.get("links")
            following = links.get("next") if isinstance(links, dict) else None
        return documents

    def _get(self, path: str) -> Any:
        url = path if path.startswith("http") else f"{self._url}{path}"
        response = self._session.get(url, timeout=60)
        response.raise_for_status()
        return response.json()


def compare(name: str, listed: Objects, mirrored: Objects) -> list[str]:
    """Return how a mirror differs from what is listed, in sentences."""
    expected, actual = ({key: _remove_addresses(document) for key, document in objects.items()}
                        for objects in (listed, mirrored))
    return [
        f"{name}: {kind} {id_} is {expected.get((kind, id_))}, and in the mirror "
        f"{actual.get((kind, id_))}"
        for kind, id_ in sorted(expected.keys() | actual.keys())
        if expected.get((kind, id_)) != actual.get((kind, id_))]


def _remove_addresses(document: Any) -> Any:
    return json.loads(_ADDRESS.sub("", json.dumps(document)))
