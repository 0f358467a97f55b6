"""Two services that should answer alike: a real Keystone, and ours.

A *story* (``keystone_stories``) is told to both. What each answers is written down in
a form that can be compared: ids and addresses replaced by names.
"""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import webob

from placement_core import app
from tests import databases, keystone_service
from tests.answers import CheckedAnswers
from tests.http import base

#: Headers that clients of Keystone look at.
_HEADERS = ("Content-Type", "Vary", "WWW-Authenticate", "Allow")

_HEX_ID = re.compile(r"\b[0-9a-f]{32}\b")


@dataclasses.dataclass(frozen=True)
class Caller:
    """Who sends a request.

    :ivar role: None: somebody without a token.
    :ivar project_id: where the role is held; None: on the whole system.
    """

    role: str | None
    project_id: str | None = None


ADMIN = Caller("admin", "admin")
NOBODY = Caller(None)
SYSTEM_READER = Caller("reader")


@dataclasses.dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Side(Protocol):
    """One of the two services. ``url`` is its v3 endpoint."""

    url: str

    def send(
        self, method: str, path: str, body: bytes | None, caller: Caller,
        headers: Mapping[str, str],
    ) -> Reply:
        """Send one request."""


class KeystoneSide:
    """The real Keystone."""

    def __init__(self, keystone: keystone_service.Keystone) -> None:
        self.url = keystone.url
        self._admin = keystone_service.Admin(keystone.url)
        self._tokens: dict[Caller, str] = {ADMIN: self._admin.token}
        self._roles = {each["name"]: each["id"] for each in self._admin.list("roles")}

    def send(
        self, method: str, path: str, body: bytes | None, caller: Caller,
        headers: Mapping[str, str],
    ) -> Reply:
        token = self._token(caller) if caller.role is not None else ""
        return Reply(*self._admin.send(method, path, body, token=token, headers=headers))

    def _token(self, caller: Caller) -> str:
        if caller not in self._tokens:
            self._tokens[caller] = self._log_in(caller)
        return self._tokens[caller]

    def _log_in(self, caller: Caller) -> str:
        """Make a user for ``caller``, and return its token."""
        user = self._admin.make(
            "users", name=keystone_service.new_name("user"), domain_id="default",
            password=keystone_service.PASSWORD)
        place = f"/projects/{caller.project_id}" if caller.project_id else "/system"
        status, _, answer = self._admin.send(
            "PUT", f"{place}/users/{user['id']}/roles/{self._roles[caller.role]}")
        assert status == 204, answer
        return self._admin.log_in(
            {"id": user["id"], "password": keystone_service.PASSWORD},
            {"project": {"id": caller.project_id}} if caller.project_id
            else {"system": {"all": True}})


class OurSide:
    """Our application, which believes who its callers say they are."""

    url = "http://ours.example:8778/v3"

    def __init__(self, model: str) -> None:
        self._app = CheckedAnswers(app.make_app(base.configuration(
            databases.settings("sqlite").connection, {("limits", "enforcement_model"): model})),
            app.APIS)
        # Every Keystone has this domain.
        self.send("POST", "/domains", b'{"domain": {"name": "Default"}}', ADMIN, {})

    def send(
        self, method: str, path: str, body: bytes | None, caller: Caller,
        headers: Mapping[str, str],
    ) -> Reply:
        request = webob.Request.blank(self.url + path, method=method)
        request.content_type = ""
        if body is not None:
            request.body = body
            request.headers["Content-Type"] = "application/json"
        if caller.role is not None:
            request.headers["X-Auth-Token"] = f"user:{caller.project_id or ''}"
            request.headers["X-Roles"] = caller.role
            if caller.project_id is None:
                request.headers["OpenStack-System-Scope"] = "all"
        request.headers.update(headers)
        response = request.get_response(self._app)
        return Reply(response.status_int, response.headers, response.body)


@dataclasses.dataclass(frozen=True)
class Told:
    """An exchange as it is compared; ``str()`` of it is for people."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Teller:
    """Tells one story to one side, and writes down what it answers.

    :param tag: the same for both sides, and no other story's: a Keystone outlives them.
    :ivar told: {step: what was answered}
    """

    def __init__(self, side: Side, tag: str) -> None:
        self._side = side
        self.tag = tag
        self._names = {side.url: "BASE"}
        self.told: dict[str, Told] = {}

    # Making what a story needs -------------------------------------------------

    def make(self, collection: str, name: str, **values: object) -> str:
        """Make an object of the catalog through the side's own routes; return its id.

        :param name: what its id is called when answers are compared.
        """
        member = collection.removesuffix("s")
        if collection == "regions":
            values["id"] = f"{name}-{self.tag}"
        elif collection != "endpoints":
            values.setdefault("name", f"{name}-{self.tag}")
        reply = self._send("POST", f"/{collection}", {member: values})
        assert reply.status == 201, reply
        id_ = reply.document[member]["id"]
        self._names[id_] = name
        return id_

    def service(self, name: str = "service") -> str:
        return self.make("services", name, type="t")

    def region(self, name: str = "region") -> str:
        return self.make("regions", name)

    def domain(self, name: str = "domain") -> str:
        return self.make("domains", name)

    def project(self, name: str, parent_id: str, domain_id: str | None = None) -> str:
        return self.make(
            "projects", name, parent_id=parent_id, domain_id=domain_id or parent_id)

    def register(self, service_id: str, region_id: str | None, **defaults: int) -> str:
        """Register resources; return the id of the last one."""
        return self._batch("registered_limits", [
            {"service_id": service_id, "region_id": region_id, "resource_name": name,
             "default_limit": value} for name, value in defaults.items()])

    def set(
        self, service_id: str, region_id: str | None, resource_name: str, value: int,
        **node: str,
    ) -> str:
        """Set a limit; return its id."""
        return self._batch("limits", [{
            "service_id": service_id, "region_id": region_id, "resource_name": resource_name,
            "resource_limit": value, **node}])

    def _batch(self, collection: str, items: list[dict[str, Any]]) -> str:
        reply = self._send("POST", f"/{collection}", {collection: items})
        assert reply.status == 201, reply
        return reply.document[collection][-1]["id"]

    # What is compared ------------------------------------------------------------

    def ask(
        self, step: str, method: str, path: str, body: Any = None, *, caller: Caller = ADMIN,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request, and write down the answer under the name of the step.

        :param body: bytes, or something for JSON.
        """
        assert step not in self.told, step
        reply = self._send(method, path, body, caller=caller, headers=headers)
        self.told[step] = self._comparable(method, reply)
        return reply

    def list_(self, step: str, collection: str, service_id: str) -> None:
        """Write down which limits of a service there are."""
        self.ask(step, "GET", f"/{collection}?service_id={service_id}")

    def _send(
        self, method: str, path: str, body: Any = None, *, caller: Caller = ADMIN,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self._side.send(method, path, data, caller, headers or {})

    def _comparable(self, method: str, reply: Reply) -> Told:
        headers = {name: self._named(reply.headers[name]) for name in _HEADERS
                   if reply.headers.get(name)}
        if "Allow" in headers:
            headers["Allow"] = ", ".join(sorted(re.split(r",\s*", headers["Allow"])))
        text = reply.body.decode()
        try:
            body = json.loads(self._named(text))
        except ValueError:
            body = "" if not text else "no JSON"
        if method == "GET" and isinstance(body, dict):
            # Keystone does not say in which order it lists.
            body = {key: sorted(value, key=_text) if isinstance(value, list) else value
                    for key, value in body.items()}
        return Told(reply.status, headers, _without_wording(reply.status, body))

    def _named(self, text: str) -> str:
        """Replace what the two sides cannot have in common."""
        for id_, name in sorted(self._names.items(), key=lambda item: -len(item[0])):
            text = text.replace(id_, name)
        return _HEX_ID.sub("<id>", text)


def _text(item: Any) -> str:
    return json.dumps(item, sort_keys=True)


def _without_wording(status: int, body: Any) -> Any:
    """Leave out the sentence of a 400: validators word it as they like."""
    if status == 400 and isinstance(body, dict) and "error" in body:
        return {"error": {**body["error"], "message": "..."}}
    return body


def differ(keystone: Told, ours: Told) -> list[str]:
    """Return in what two answers differ: parts of status, headers, body.

    Where both refuse, ours may say more: its sentence begins with Keystone's.
    """
    found = []
    if keystone.status != ours.status:
        found.append(f"status {keystone.status} | {ours.status}")
    if keystone.headers != ours.headers:
        found.append(f"headers {dict(keystone.headers)} | {dict(ours.headers)}")
    if keystone.body != _cut(keystone.body, ours.body):
        found.append(f"body {keystone.body} | {ours.body}")
    return found


def _cut(theirs: Any, ours: Any) -> Any:
    """Cut our sentence where Keystone's ends, if it begins like that."""
    try:
        shorter = theirs["error"]["message"].rstrip(".")
        if ours["error"]["message"].startswith(shorter):
            return {"error": {**ours["error"], "message": theirs["error"]["message"]}}
    except (KeyError, TypeError):
        pass
    return ours


Story = Callable[[Teller], None]


def tell(story: Story, *sides: Side) -> list[dict[str, Told]]:
    """Tell a story to each side; return what each answered."""
    tag = uuid.uuid4().hex[:8]
    tellers = [Teller(side, tag) for side in sides]
    for teller in tellers:
        story(teller)
    return [teller.told for teller in tellers]
