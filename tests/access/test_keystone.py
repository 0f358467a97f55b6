"""Who sees which limits, projects and domains: as many as in a real Keystone, but for a few."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable, Mapping

from tests import base, keystone_service
from tests.access import identities, worlds

#: Collections, with the callers who see more here than in Keystone: (collection, caller).
#: A service reads for others what binds them, and members what binds themselves; in Keystone an
#: operator has to give them a further role for that.
_MORE_HERE = frozenset(
    [("limits/{id}", "service")]
    + [(f"{collection}{suffix}", "service")
       for collection in ("projects", "domains") for suffix in ("", "/{id}")]
    + [(collection, caller) for collection in ("projects", "domains") for caller in (
        "manager", "member", "reader", "other member", "app cred", "free app cred")])

#: Sends GET with a token: (path below /v3, token) -> (status, body).
Send = Callable[[str, str], tuple[int, bytes]]


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestVisibility(base.TestCase):
    def test_as_in_keystone(self) -> None:
        """Two domains with a project and a limit each, of which some callers see one."""
        cloud = identities.make(keystone_service.shared())
        admin = keystone_service.admin(cloud.keystone)
        world = self.enterContext(worlds.make_world(cloud))
        service_id = admin.make("services", type="compute")["id"]
        limit = {"service_id": service_id, "region_id": None, "resource_name": "cores"}
        admin.make("registered_limits", **limit, default_limit=10)
        limits = {project_id: admin.make(
            "limits", **limit, project_id=project_id, resource_limit=5)["id"]
            for project_id in cloud.domains}

        def ask_keystone(path: str, token: str) -> tuple[int, bytes]:
            status, _, body = admin.send("GET", path, token=token)
            return status, body

        def ask_us(path: str, token: str) -> tuple[int, bytes]:
            answer = world.ask(worlds.Request("GET", f"/v3{path}", None), token)
            return answer.status, answer.text.encode()

        more_here = set()
        for caller, token in cloud.tokens.items():
            if token is None or caller in ("expired", "revoked", "forged"):
                continue
            theirs = _find_visible(ask_keystone, token, cloud.domains, limits)
            ours = _find_visible(ask_us, token, cloud.domains, {
                project_id: world.find_limit_id(project_id) for project_id in cloud.domains})
            for collection, seen in ours.items():
                self.assertLessEqual(theirs[collection], seen, (collection, caller))
                if seen != theirs[collection]:
                    more_here.add((collection, caller))
        self.assertEqual(_MORE_HERE, more_here)


def _find_visible(
    send: Send, token: str, domains: Mapping[str, str], limits: Mapping[str, str]
) -> Mapping[str, set[int]]:
    """Return which of the objects a caller lists, and which it is shown.

    :param domains: {id of a project: id of its domain}.
    :param limits: {id of a project: id of its limit}.
    :returns: {collection: numbers of the projects to which the visible ones belong}
    """
    visible = {}
    for collection, ids in (("limits", list(limits.values())), ("projects", list(domains)),
                            ("domains", list(domains.values()))):
        status, body = send(f"/{collection}", token)
        listed = [] if status >= 400 else [
            item["id"] for item in json.loads(body)[collection]]
        visible[collection] = {number for number, id_ in enumerate(ids) if id_ in listed}
        visible[f"{collection}/{{id}}"] = {
            number for number, id_ in enumerate(ids)
            if send(f"/{collection}/{id_}", token)[0] < 400}
    return visible
