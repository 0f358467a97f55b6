"""Clients that write what the clients of ``tests.faults`` do not."""

from __future__ import annotations

import collections
import uuid
from collections.abc import Sequence
from typing import Any

from tests.faults.clients import NOTHING, Client, make_claim

#: A client has so many objects of a kind at most.
_MOST = 6
_HOLD_SECONDS = 3600
_CLASSES = ("MEMORY_MB", "DISK_GB")


class Tenant(Client):
    """Claims, for good and held, for projects that come and go, on hosts with much room."""

    def __init__(self, *args: Any, hosts: Sequence[str], projects: Sequence[str]) -> None:
        """Claim nothing yet.

        :param hosts: the providers' uuids.
        """
        super().__init__(*args)
        self._hosts = hosts
        self._projects = projects
        self._consumers: collections.deque[str] = collections.deque()
        self._held: collections.deque[str] = collections.deque()

    def act(self) -> None:
        chance = self.random.random()
        if chance < 0.35 or not self._consumers:
            self._claim()
        elif chance < 0.55:
            self._move(self.random.choice(self._consumers))
        elif chance < 0.65:
            self._hand_over(self._consumers.popleft())
        elif chance < 0.8:
            self._hold()
        else:
            consumer = self._consumers.popleft()
            self.ask("delete", "DELETE", f"/allocations/{consumer}")
        while len(self._consumers) > _MOST:
            self.ask("delete", "DELETE", f"/allocations/{self._consumers.popleft()}")

    def _make_uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def _choose_project(self) -> str:
        # Most have no limit: those that have one wait for each other.
        match self.random.randrange(10):
            case 0 | 1:
                return f"project-{self.random.randrange(10**9)}"
            case 2 | 3:
                return self.random.choice(self._projects)
            case number:
                return f"unlimited-{number}"

    def _choose(self) -> frozenset[tuple[str, str, int]]:
        return frozenset(
            (host, name, self.random.randint(1, 9))
            for host in self.random.sample(self._hosts, self.random.choice((1, 1, 2)))
            for name in _CLASSES[:self.random.randint(1, 2)])

    def _claim(self) -> None:
        consumer = self._make_uuid()
        self._consumers.append(consumer)
        self.ask("claim much", "PUT", f"/allocations/{consumer}",
                 make_claim(self._choose(), self._choose_project(), None))

    def _move(self, consumer: str) -> None:
        answer, document = self.ask("read a claim", "GET", f"/allocations/{consumer}")
        if answer.status == 200 and document["allocations"]:
            self.ask("replace a claim", "PUT", f"/allocations/{consumer}", make_claim(
                self._choose(), self._choose_project(), document["consumer_generation"]))

    def _hand_over(self, consumer: str) -> None:
        """Give what a consumer holds to a new one, as a migration does."""
        answer, document = self.ask("read a claim", "GET", f"/allocations/{consumer}")
        if answer.status == 200 and document["allocations"]:
            migration = self._make_uuid()
            self._consumers.append(migration)
            project, generation = document["project_id"], document["consumer_generation"]
            self.ask("hand over", "POST", "/allocations", {
                consumer: make_claim(NOTHING, project, generation),
                migration: make_claim(self._choose(), project, None)})

    def _hold(self) -> None:
        if len(self._held) > _MOST // 2:
            claim = f"/capacity/v1/claims/{self._held.popleft()}"
            if self.random.random() < 0.5:
                answer, _ = self.ask("confirm", "POST", f"{claim}/confirm")
                if answer.status == 200:
                    self._consumers.append(claim.rsplit("/", 1)[1])
                    return
            self.ask("release", "DELETE", claim)
            return
        body = make_claim(self._choose(), self._choose_project(), None)
        del body["consumer_generation"]
        consumer = self._make_uuid()
        self._held.append(consumer)
        self.ask("hold", "POST", "/capacity/v1/claims", {"claim": {
            **body, "consumer_uuid": consumer, "hold_seconds": _HOLD_SECONDS}})


class HostOwner(Client):
    """Lets hosts come and go, and changes their inventories, traits and aggregates."""

    def __init__(self, *args: Any, traits: Sequence[str]) -> None:
        """Make nothing yet.

        :param traits: those that may be there.
        """
        super().__init__(*args)
        self._traits = traits
        self._hosts: collections.deque[str] = collections.deque()
        self._count = 0

    def act(self) -> None:
        if not self._hosts or (len(self._hosts) < _MOST and self.random.random() < 0.3):
            self._count += 1
            answer, document = self.ask("make a host", "POST", "/resource_providers", {
                "name": f"{self.name} {self._count}"})
            if answer.status == 200:
                self._hosts.append(document["uuid"])
            return
        path = f"/resource_providers/{self._hosts[0]}"
        self._hosts.rotate()
        answer, document = self.ask("read a host", "GET", path)
        if answer.status == 404:
            self._hosts.pop()
            return
        if answer.status != 200:
            return
        seen = {"resource_provider_generation": document["generation"]}
        match self.random.randrange(5):
            case 0:
                self.ask("delete a host", "DELETE", path)
            case 1:
                self.ask("rename a host", "PUT", path, {
                    "name": f"{document['name'].split(' again')[0]} again "
                            f"{self.random.randrange(10**6)}"})
            case 2:
                self.ask("set inventories", "PUT", f"{path}/inventories", {
                    **seen, "inventories": {name: {"total": self.random.randint(1, 99)}
                                            for name in _CLASSES}})
            case 3:
                traits = self.random.sample(self._traits, self.random.randint(0, 2))
                self.ask("set traits", "PUT", f"{path}/traits", {**seen, "traits": traits})
            case _:
                self.ask("set aggregates", "PUT", f"{path}/aggregates", {
                    **seen, "aggregates": [str(uuid.UUID(int=self.random.randrange(9)))]})


class Namer(Client):
    """Makes and deletes resource classes and traits, of names that others make, too."""

    def __init__(self, *args: Any, names: Sequence[str]) -> None:
        """Make nothing yet."""
        super().__init__(*args)
        self._names = names

    def act(self) -> None:
        collection = self.random.choice(("resource_classes", "traits"))
        method = self.random.choice(("PUT", "DELETE"))
        self.ask(f"{method} {collection}", method,
                 f"/{collection}/{self.random.choice(self._names)}")


class Administrator(Client):
    """Makes projects with limits of their own and of their users, and deletes them."""

    def __init__(self, *args: Any, domain: str, service: str, resource: str) -> None:
        """Make nothing yet.

        :param resource: the name of a registered limit of the service.
        """
        super().__init__(*args)
        self._domain = domain
        self._key = {"service_id": service, "region_id": None, "resource_name": resource}
        self._count = 0
        self._projects: collections.deque[str] = collections.deque()
        #: (the kind's path, the name of one, its id)
        self._limits: collections.deque[tuple[str, str, str]] = collections.deque()

    def act(self) -> None:
        if not self._projects or (len(self._projects) < _MOST and self.random.random() < 0.2):
            self._make_project()
            return
        match self.random.randrange(5):
            case 0:
                self._make_limit("/v3/limits", "limit", {})
            case 1:
                self._make_limit("/capacity/v1/limits/users", "user_limit", {
                    "user_id": f"user-{self.random.randrange(5)}"})
            case 2 if self._limits:
                path, _, limit = self._limits.popleft()
                self.ask("delete a limit", "DELETE", f"{path}/{limit}")
            case 3 if len(self._projects) > _MOST // 2:
                self.ask("delete a project", "DELETE", f"/v3/projects/{self._projects.popleft()}")
            case _ if self._limits:
                path, name, limit = self.random.choice(self._limits)
                self.ask("change a limit", "PATCH", f"{path}/{limit}", {
                    name: {"resource_limit": self.random.randrange(1000)}})

    def _make_project(self) -> None:
        self._count += 1
        answer, document = self.ask("make a project", "POST", "/v3/projects", {"project": {
            "name": f"{self.name} {self._count}", "domain_id": self._domain}})
        if answer.status == 201:
            self._projects.append(document["project"]["id"])

    def _make_limit(self, path: str, name: str, more: dict[str, Any]) -> None:
        answer, document = self.ask("make a limit", "POST", path, {f"{name}s": [{
            **self._key, **more, "project_id": self.random.choice(self._projects),
            "resource_limit": self.random.randrange(1000)}]})
        if answer.status == 201:
            self._limits.append((path, name, document[f"{name}s"][0]["id"]))
