"""The kinds of callers there are, each with a token of a real Keystone."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import msgpack
from cryptography import fernet

from tests import keystone_service
from tests.keystone_service import Keystone, new_name

#: A scope of a token, as the request for one names it.
Scope = Mapping[str, Mapping[str, Any]]

_PASSWORD = "pass of a caller"
_DAY, _HOUR = 24 * 3600, 3600


@dataclasses.dataclass(frozen=True)
class Cloud:
    """Two domains with a project each, and tokens for who is there.

    :ivar domains: {id of a project: id of its domain}, first those of most callers.
    :ivar tokens: {kind of caller: its token; None: it has none}, in the order of the table.
    """

    keystone: Keystone
    domains: Mapping[str, str]
    tokens: Mapping[str, str | None]


def make(keystone: Keystone) -> Cloud:
    """Make domains, projects, users and tokens in a Keystone."""
    maker = _Maker(keystone)
    domains = {project_id: domain_id for domain_id, project_id in (
        maker.make_project(), maker.make_project())}
    (project_id, domain_id), (other_id, _) = domains.items()
    project = {"project": {"id": project_id}}
    system, domain = {"system": {"all": True}}, {"domain": {"id": domain_id}}
    return Cloud(keystone, domains, {
        **{role: maker.log_in(role, project)
           for role in ("admin", "service", "manager", "member", "reader")},
        "other member": maker.log_in("member", {"project": {"id": other_id}}),
        "system admin": maker.log_in("admin", system),
        "system reader": maker.log_in("reader", system),
        "domain admin": maker.log_in("admin", domain),
        "domain reader": maker.log_in("reader", domain),
        "app cred": maker.log_in_with_credential("member", project, unrestricted=False),
        "free app cred": maker.log_in_with_credential("member", project, unrestricted=True),
        "unscoped": maker.log_in("admin", project, unscoped=True),
        "expired": _age(maker.log_in("admin", project), keystone.folder / "tokens"),
        "revoked": maker.revoke(maker.log_in("admin", project)),
        "forged": "gAAAAABrAQGuVtu1YBsXWChoSfb9cT75sMYE",
        "none": None,
    })


def make_credential(keystone: Keystone) -> Mapping[str, str]:
    """Return an application credential of the administrator, with its ``id`` and ``secret``."""
    maker = _Maker(keystone)
    return maker.make_credential(maker.find_user_id("admin"), token=None, unrestricted=False)


class _Maker:
    """Makes domains, projects, users and their tokens."""

    def __init__(self, keystone: Keystone) -> None:
        self._admin = keystone_service.admin(keystone)
        self._roles = {role["name"]: role["id"] for role in self._admin.list("roles")}

    def make_project(self) -> tuple[str, str]:
        """Make a domain, and a project in it; return the ids of both."""
        domain = self._admin.make("domains", name=new_name("domain"))
        project = self._admin.make(
            "projects", name=new_name("project"), domain_id=domain["id"])
        return domain["id"], project["id"]

    def log_in(self, role: str, scope: Scope, *, unscoped: bool = False) -> str:
        """Return a token of a new user who has one role.

        :param scope: where the user has it, as a request for a token names it.
        :param unscoped: whether the token does without it.
        """
        return self._get_token(self._make_user(role, scope), "unscoped" if unscoped else scope)

    def log_in_with_credential(self, role: str, scope: Scope, *, unrestricted: bool) -> str:
        """Return a token of an application credential of a new user.

        :param unrestricted: whether it may make further credentials.
        """
        user_id = self._make_user(role, scope)
        credential = self.make_credential(
            user_id, self._get_token(user_id, scope), unrestricted=unrestricted)
        headers, _ = self._send("POST", "/auth/tokens", {"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": credential["id"], "secret": credential["secret"]},
        }}}, token="")
        token: str = headers["X-Subject-Token"]
        return token

    def make_credential(
        self, user_id: str, token: str | None, *, unrestricted: bool
    ) -> Mapping[str, str]:
        """Return an application credential of a user.

        :param token: the user's; None: he is the administrator.
        """
        _, answer = self._send("POST", f"/users/{user_id}/application_credentials", {
            "application_credential": {"name": new_name("credential"),
                                       "unrestricted": unrestricted}}, token=token)
        credential: Mapping[str, str] = json.loads(answer)["application_credential"]
        return credential

    def find_user_id(self, name: str) -> str:
        """Return the id of a user."""
        (user_id,) = [user["id"] for user in self._admin.list("users") if user["name"] == name]
        return user_id

    def revoke(self, token: str) -> str:
        """Return a token that was good until now."""
        self._send("DELETE", "/auth/tokens", headers={"X-Subject-Token": token})
        return token

    def _make_user(self, role: str, scope: Scope) -> str:
        user_id: str = self._admin.make(
            "users", name=new_name(role), password=_PASSWORD, domain_id="default")["id"]
        ((kind, where),) = scope.items()
        path = "/system" if kind == "system" else f"/{kind}s/{where['id']}"
        self._send("PUT", f"{path}/users/{user_id}/roles/{self._roles[role]}")
        return user_id

    def _get_token(self, user_id: str, scope: Scope | str) -> str:
        return self._admin.log_in({"id": user_id, "password": _PASSWORD}, scope)

    def _send(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Send a request that has to succeed; return headers and body."""
        status, headers, answer = self._admin.send(method, path, body, **options)
        if status >= 300:
            raise AssertionError(f"{method} {path}: {status} {answer!r}")
        return headers, answer


def _age(token: str, keys: pathlib.Path) -> str:
    """Return a token as Keystone would have made it yesterday.

    Tokens live for an hour, so nobody waits until one expires: it is written anew with the keys
    of its Keystone.
    """
    fernets = [fernet.Fernet(path.read_bytes()) for path in sorted(keys.iterdir(), reverse=True)]
    padded = token + "=" * (-len(token) % 4)
    fields = msgpack.unpackb(fernet.MultiFernet(fernets).decrypt(padded.encode()))
    yesterday = time.time() - _DAY
    # The only number with a fraction is the time when it expires.
    aged = [yesterday + _HOUR if isinstance(field, float) else field for field in fields]
    return fernets[0].encrypt_at_time(
        msgpack.packb(aged), int(yesterday)).decode().rstrip("=")
