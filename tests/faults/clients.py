"""Clients that claim, move, lease and change limits, and note what they are answered."""

from __future__ import annotations

import collections
import datetime
import http.client
import json
import random
import select
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.history import (
    ANYTHING,
    Answer,
    Held,
    History,
    Outcome,
    Read,
    Version,
    Write,
    judge,
)

#: A client gives up on an answer; nothing the service promises takes as long.
PATIENCE_SECONDS = 40
_PAUSE_SECONDS = 0.05
#: Less patient than a client should be: what is answered meanwhile is to be seen.
_AGAIN_SECONDS = 0.2
_CLASS = "VCPU"
#: A client has so many claims at most, so that there is room for new ones.
_MOST_OWN = 8
_MOST_GANGS = 3

#: Where nothing is held.
NOTHING: Held = frozenset()


class Client:
    """Asks one of the API processes after the other, until it is told to stop.

    :ivar history: where it notes what happened.
    """

    #: Of the tree of operations that it uses, and who asks.
    headers: Mapping[str, str] = {
        "X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}

    def __init__(
        self, name: str, ports: Sequence[int], history: History, seed: int,
        stopped: threading.Event,
    ) -> None:
        """Ask nothing yet.

        :param ports: of the API processes on the loopback interface; may be changed meanwhile.
        """
        self.name = name
        self.history = history
        self.random = random.Random(f"{seed} {name}")
        self.failure: BaseException | None = None
        self._ports = ports
        self._stopped = stopped
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def run(self) -> None:
        """Act until it is over."""
        try:
            while not self._stopped.is_set():
                self.act()
                time.sleep(self.random.random() * _PAUSE_SECONDS)
        except BaseException as error:
            self.failure = error

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def ask(
        self, operation: str, method: str, path: str, body: Any = None,
        tags: Mapping[int, str] | None = None,
    ) -> tuple[Answer, Any]:
        """Send a request to one of the processes; return what came of it, and the document.

        :param tags: {port: the entity tag that the client has of this process}
        """
        port = self.random.choice(self._ports)
        tag = None if tags is None else tags.get(port)
        began = time.monotonic()
        status, headers, document = self._send(port, method, path, body, tag)
        has_failed = status is None or status >= 500
        answer = Answer(
            self.name, port, operation, status, began, time.monotonic(),
            headers.get("Retry-After") is not None, headers.get("ETag"),
            str(document) if has_failed else None)
        self.history.note(answer)
        if has_failed:
            time.sleep(_AGAIN_SECONDS)
        return answer, document

    def _send(
        self, port: int, method: str, path: str, body: Any, tag: str | None
    ) -> tuple[int | None, Mapping[str, str], Any]:
        """Send a request; without an answer, the document is what happened instead."""
        connection = self._connections.get(port)
        if connection is not None and _is_closed(connection):
            connection.close()
            connection = None
        if connection is None:
            connection = self._connections[port] = http.client.HTTPConnection(
                "127.0.0.1", port, timeout=PATIENCE_SECONDS)
        headers = dict(self.headers)
        data = None
        if tag is not None:
            headers["If-None-Match"] = tag
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        try:
            connection.request(method, path, body=data, headers=headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            del self._connections[port]
            return None, {}, repr(error)
        return response.status, response.headers, json.loads(content) if content else None


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Say whether the server has closed a connection that was kept: nothing else is to be read."""
    if connection.sock is None:
        return True
    readable, _, _ = select.select([connection.sock], [], [], 0)
    return bool(readable)


def name_consumer(consumer: str) -> str:
    """Return how notes name a consumer."""
    return f"consumer {consumer}"


class Claimer(Client):
    """Claims on some hosts, moves and releases what it claimed, and reads it."""

    def __init__(
        self, *args: Any, hosts: Sequence[str], projects: Sequence[str], most: int = 3
    ) -> None:
        """Claim nothing yet.

        :param hosts: the providers' uuids.
        :param most: so many of the resource class at once.
        """
        super().__init__(*args)
        self._hosts = hosts
        self._projects = projects
        self._most = most
        #: {consumer: its generation}, of those that hold something.
        self._own: dict[str, int] = {}

    def act(self) -> None:
        chance = self.random.random()
        if len(self._own) < _MOST_OWN and (not self._own or chance < 0.45):
            consumer = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
            self.history.projects[consumer] = self.random.choice(self._projects)
            self._write("claim", consumer, self._choose())
        elif chance < 0.65:
            self._write("move", self._pick(), self._choose())
        elif chance < 0.9:
            self._write("release", self._pick(), NOTHING)
        else:
            self._read(self._pick())

    def _pick(self) -> str:
        return self.random.choice(sorted(self._own))

    def _choose(self) -> Held:
        return frozenset({
            (self.random.choice(self._hosts), _CLASS, self.random.randint(1, self._most))})

    def _write(self, operation: str, consumer: str, held: Held) -> None:
        answer, _ = self.ask(operation, "PUT", f"/allocations/{consumer}", make_claim(
            held, self.history.projects[consumer], self._own.get(consumer)))
        outcome = judge(answer.status)
        self.history.note(Write(
            name_consumer(consumer), held, answer.began, answer.ended, outcome,
            server=answer.server))
        if outcome is Outcome.DONE and held == NOTHING:
            self._own.pop(consumer, None)
        elif outcome is not Outcome.REFUSED or consumer in self._own:
            self._read(consumer)

    def _read(self, consumer: str) -> None:
        """Read what a consumer holds; again and again, until there is an answer."""
        while not self._stopped.is_set():
            answer, document = self.ask("read a claim", "GET", f"/allocations/{consumer}")
            if answer.status == 200:
                self._note(answer, consumer, document)
                return

    def _note(self, answer: Answer, consumer: str, document: Any) -> None:
        name = name_consumer(consumer)
        held = list_held(document)
        self.history.note(Read(name, held, answer.began, answer.ended, answer.server))
        if held:
            self._own[consumer] = document["consumer_generation"]
            self.history.note(
                Version(name, document["consumer_generation"], answer.began, answer.ended))
        else:
            self._own.pop(consumer, None)


def make_claim(held: Held, project: str, generation: int | None) -> dict[str, Any]:
    """Return the body of a write of allocations."""
    allocations: dict[str, Any] = {}
    for provider, resource_class, amount in held:
        allocations.setdefault(provider, {"resources": {}})["resources"][resource_class] = amount
    return {"allocations": allocations, "project_id": project, "user_id": "user",
            "consumer_generation": generation, "consumer_type": "INSTANCE"}


def list_held(document: Any) -> Held:
    """Return what a consumer has of an answer's document."""
    return frozenset(
        (provider, resource_class, amount)
        for provider, each in document["allocations"].items()
        for resource_class, amount in each["resources"].items())


class Ganger(Client):
    """Has groups of consumers placed, all or none, and releases them together."""

    def __init__(self, *args: Any, trait: str, projects: Sequence[str]) -> None:
        """Claim nothing yet.

        :param trait: of the hosts to claim on.
        """
        super().__init__(*args)
        self._trait = trait
        self._projects = projects
        #: Members and their project.
        self._own: collections.deque[tuple[Sequence[str], str]] = collections.deque()

    def act(self) -> None:
        members = [str(uuid.UUID(int=self.random.getrandbits(128), version=4))
                   for _ in range(self.random.randint(2, 5))]
        project = self.random.choice(self._projects)
        self.history.projects.update(dict.fromkeys(members, project))
        answer, document = self.ask("claim a gang", "POST", "/capacity/v1/claims", {"claim": {
            "project_id": project, "user_id": "user", "consumer_type": "INSTANCE",
            "find": {"members": len(members), "resources": {_CLASS: 1}, "spread_by": "host",
                     "required": [self._trait], "consumer_uuids": members}}})
        outcome = judge(answer.status)
        # Where they are, only the answer says.
        helds: dict[str, Any] = dict.fromkeys(members, ANYTHING)
        if outcome is Outcome.DONE:
            helds = {member["consumer_uuid"]: list_held(member)
                     for member in document["claim"]["members"]}
        for member, held in helds.items():
            self.history.note(Write(
                name_consumer(member), held, answer.began, answer.ended, outcome,
                together=f"gang of {members[0]}"))
        if outcome is Outcome.DONE:
            self._own.append((members, project))
        if len(self._own) > _MOST_GANGS:
            self._release(*self._own.popleft())

    def _release(self, members: Sequence[str], project: str) -> None:
        answer, _ = self.ask("release a gang", "POST", "/allocations", {
            member: make_claim(NOTHING, project, 1) for member in members})
        self.history.note(*(
            Write(name_consumer(member), NOTHING, answer.began, answer.ended,
                  judge(answer.status)) for member in members))


class LimitChanger(Client):
    """Changes one limit up and down, and reads it unless it is what the client knows already."""

    def __init__(self, *args: Any, limit: str, values: Sequence[int]) -> None:
        """Change nothing yet.

        :param limit: its id.
        """
        super().__init__(*args)
        self._limit = limit
        self._values = values
        #: {port: the last entity tag}, {entity tag: the limit that it stands for}
        self._tags: dict[int, str] = {}
        self._known: dict[str, int] = {}

    def act(self) -> None:
        path, name = f"/v3/limits/{self._limit}", f"limit {self._limit}"
        value = self.random.choice(self._values)
        answer, _ = self.ask(
            "change a limit", "PATCH", path, {"limit": {"resource_limit": value}})
        self.history.note(Write(
            name, value, answer.began, answer.ended, judge(answer.status), guarded=False))
        # The second read finds what the first one found, unless others changed limits.
        for _ in range(2):
            self._read(name, path)
        time.sleep(0.3)

    def _read(self, name: str, path: str) -> None:
        answer, document = self.ask("read a limit", "GET", path, tags=self._tags)
        if answer.status not in (200, 304):
            return
        assert answer.tag is not None, "an answer has no entity tag"
        value = (self._known[answer.tag] if answer.status == 304
                 else document["limit"]["resource_limit"])
        self._tags[answer.server] = answer.tag
        self._known.setdefault(answer.tag, value)
        self.history.note(Read(
            name, value, answer.began, answer.ended, answer.server, answer.tag))


class Watcher(Client):
    """Searches, and reads the generations of providers that others change."""

    def __init__(self, *args: Any, providers: Sequence[str]) -> None:
        """Read nothing yet."""
        super().__init__(*args)
        self._providers = providers

    def act(self) -> None:
        self.ask("search", "GET", f"/allocation_candidates?resources={_CLASS}:1&limit=5")
        provider = self.random.choice(self._providers)
        answer, document = self.ask("read a provider", "GET", f"/resource_providers/{provider}")
        if answer.status == 200:
            self.history.note(Version(
                f"provider {provider}", document["generation"], answer.began, answer.ended))


class Lessor(Client):
    """Leases hosts and slots for a minute or two, and deletes some of the leases."""

    headers = {"X-Auth-Token": "admin", "X-Roles": "admin"}

    def __init__(self, *args: Any) -> None:
        """Lease nothing yet."""
        super().__init__(*args)
        self._count = 0
        #: {name: id}
        self._own: dict[str, str] = {}

    def act(self) -> None:
        if self._own and self.random.random() < 0.4:
            self._delete(self.random.choice(sorted(self._own)))
        else:
            self._create()
        time.sleep(0.3)

    def _create(self) -> None:
        self._count += 1
        lease = f"{self.name} {self._count}"
        minutes = self.random.choice([0, 0, 1, 2])
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
        end = start + datetime.timedelta(minutes=self.random.randint(1, 2))
        answer, document = self.ask("lease", "POST", "/v1/leases", {
            "name": lease, "start_date": f"{start:%Y-%m-%d %H:%M}" if minutes else "now",
            "end_date": f"{end:%Y-%m-%d %H:%M}", "before_end_date": None, "events": [],
            "reservations": [self._reserve()]})
        outcome = judge(answer.status)
        self.history.note(Write(
            f"lease {lease}", "there", answer.began, answer.ended, outcome, guarded=False))
        if outcome is Outcome.DONE:
            self._own[lease] = document["lease"]["id"]

    def _reserve(self) -> dict[str, Any]:
        if self.random.random() < 0.5:
            return {"resource_type": "physical:host", "min": 1, "max": 1,
                    "hypervisor_properties": "", "resource_properties": ""}
        return {"resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1, "disk_gb": 1,
                "amount": self.random.randint(1, 3), "affinity": None, "resource_properties": ""}

    def _delete(self, lease: str) -> None:
        answer, _ = self.ask("delete a lease", "DELETE", f"/v1/leases/{self._own[lease]}")
        if answer.status == 404:
            # An attempt without an answer did it.
            self._own.pop(lease)
            return
        outcome = judge(answer.status)
        self.history.note(Write(
            f"lease {lease}", None, answer.began, answer.ended, outcome, guarded=False))
        if outcome is Outcome.DONE:
            self._own.pop(lease)
