"""What is told to a real Keystone and to us: scripted requests, most of spec limits §2 and §3.

Each story makes its own services, regions and projects. A step's name is unique in its story.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.keystone_sides import NOBODY, SYSTEM_READER, Caller, Teller

REGISTERED = "/registered_limits"
LIMITS = "/limits"

_NO_ID = "0" * 32

#: Values of single fields, good and bad: {what: value}.
_TEXTS: dict[str, Any] = {
    "null": None, "a number": 5, "empty": "", "blank": "  ", "long": "x" * 255,
    "too long": "x" * 256, "with a colon": "class:CUSTOM_X", "not ASCII": "größe",
    "a list": ["a"],
}
_AMOUNTS: dict[str, Any] = {
    "-2": -2, "-1": -1, "0": 0, "greatest": 2147483647, "too great": 2147483648,
    "5.0": 5.0, "5.5": 5.5, "text": "5", "true": True, "null": None, "a list": [5],
}
_IDS: dict[str, Any] = {
    "null": None, "empty": "", "no uuid": "compute", "unknown": _NO_ID, "a number": 5,
    "unknown with dashes": str(uuid.UUID(_NO_ID)), "too long": "a" * 65, "odd": "a b",
}


def registered_limits(t: Teller) -> None:
    """Making, finding, changing and deleting registered limits."""
    service, other = t.service(), t.service("other")
    region, elsewhere = t.region(), t.region("elsewhere")
    one = {"service_id": service, "region_id": region, "resource_name": "cores",
           "default_limit": 10, "description": "words"}
    id_ = t.ask("one", "POST", REGISTERED, {"registered_limits": [one]}).document[
        "registered_limits"][0]["id"]
    t.ask("three, in order", "POST", REGISTERED, {"registered_limits": [
        {"service_id": service, "resource_name": "ram", "default_limit": -1},
        {"service_id": service, "region_id": None, "resource_name": "cores",
         "default_limit": 0, "description": None},
        {"service_id": other, "region_id": elsewhere, "resource_name": "class:CUSTOM_A",
         "default_limit": 1, "description": ""}]})
    t.ask("again", "POST", REGISTERED, {"registered_limits": [one]})
    t.ask("again, without a region", "POST", REGISTERED, {"registered_limits": [
        {"service_id": service, "resource_name": "ram", "default_limit": 3}]})
    twice = {"service_id": service, "resource_name": "disk", "default_limit": 3}
    t.ask("twice in a body", "POST", REGISTERED, {"registered_limits": [twice, twice]})
    t.ask("a good and a bad one", "POST", REGISTERED, {"registered_limits": [twice, one]})
    t.list_("all or nothing", "registered_limits", service)

    t.ask("show", "GET", f"{REGISTERED}/{id_}")
    t.ask("head", "HEAD", f"{REGISTERED}/{id_}")
    t.ask("head of the list", "HEAD", f"{REGISTERED}?service_id={service}")
    for step, query in {
        "by service": f"service_id={service}",
        "by region": f"service_id={service}&region_id={region}",
        "by another region": f"service_id={service}&region_id={elsewhere}",
        "by a region nobody knows": f"service_id={service}&region_id=nowhere",
        "by the region None": f"service_id={service}&region_id=None",
        "by an empty region": f"service_id={service}&region_id=",
        "by name": f"service_id={service}&resource_name=cores",
        "by name in capitals": f"service_id={service}&resource_name=CORES",
        "by an empty name": f"service_id={service}&resource_name=",
        "by something unknown": f"service_id={service}&colour=red",
        "contains": f"service_id={service}&resource_name__contains=or",
        "starts with": f"service_id={service}&resource_name__startswith=co",
        "ends with": f"service_id={service}&resource_name__endswith=es",
        "contains, whatever the case": f"service_id={service}&resource_name__icontains=OR",
        "compares oddly": f"service_id={service}&resource_name__sounds=or",
        "by a service that is no uuid": "service_id=compute",
        "by an unknown service": f"service_id={_NO_ID}",
        "by project, which has no meaning": f"service_id={service}&project_id=x",
    }.items():
        t.ask(step, "GET", f"{REGISTERED}?{query}")

    path = f"{REGISTERED}/{id_}"
    for step, changes in {
        "nothing": {}, "the value": {"default_limit": 11}, "the value to 0": {"default_limit": 0},
        "the value to -1": {"default_limit": -1}, "the words": {"description": "others"},
        "the words to none": {"description": None}, "the words to nothing": {"description": ""},
        "the name": {"resource_name": "threads"}, "the region": {"region_id": elsewhere},
        "the region to none": {"region_id": None}, "the service": {"service_id": other},
        "several": {"service_id": service, "region_id": region, "resource_name": "cores",
                    "default_limit": 5},
        "the name to one that is taken": {"region_id": None},
        "the id": {"id": _NO_ID}, "to an unknown service": {"service_id": _NO_ID},
        "to an unknown region": {"region_id": "nowhere"}, "something unknown": {"colour": "red"},
        "the value to text": {"default_limit": "5"}, "the name to nothing": {"resource_name": ""},
    }.items():
        t.ask(f"change {step}", "PATCH", path, {"registered_limit": changes})
    t.ask("after the changes", "GET", path)
    t.ask("delete", "DELETE", path)
    t.ask("delete again", "DELETE", path)
    t.ask("show what is gone", "GET", path)
    t.ask("change what is gone", "PATCH", path, {"registered_limit": {"default_limit": 1}})
    t.list_("what is left", "registered_limits", service)


def registered_values(t: Teller) -> None:
    """Fields of registered limits, good and bad."""
    service, region = t.service(), t.region()
    for field, values in {
        "service_id": _IDS, "region_id": _TEXTS, "resource_name": _TEXTS,
        "default_limit": _AMOUNTS, "description": _TEXTS,
        "id": {"given": _NO_ID}, "colour": {"unknown": "red"}, "project_id": {"given": "x"},
    }.items():
        for what, value in values.items():
            item = {"service_id": service, "region_id": region,
                    "resource_name": f"{field} {what}", "default_limit": 1, field: value}
            t.ask(f"{field}: {what}", "POST", REGISTERED, {"registered_limits": [item]})
    for field in ("service_id", "region_id", "resource_name", "default_limit"):
        item = {"service_id": service, "region_id": region, "resource_name": f"no {field}",
                "default_limit": 1}
        del item[field]
        t.ask(f"{field}: missing", "POST", REGISTERED, {"registered_limits": [item]})


def limits(t: Teller) -> None:
    """Making, finding, changing and deleting limits."""
    service, other, region = t.service(), t.service("other"), t.region()
    domain = t.domain()
    project, sibling = t.project("project", domain), t.project("sibling", domain)
    registered = t.register(service, region, cores=10, ram=20, disk=30)
    t.register(service, None, cores=40)

    def item(value: int = 5, name: str = "cores", **changes: Any) -> dict[str, Any]:
        return {"service_id": service, "region_id": region, "resource_name": name,
                "resource_limit": value, "project_id": project} | changes

    def of(**node: str) -> dict[str, Any]:
        made = item(**node)
        del made["project_id"]
        return made | node

    def post(step: str, *items: dict[str, Any]) -> Any:
        return t.ask(step, "POST", LIMITS, {"limits": list(items)})

    id_ = post("one", item(description="words")).document["limits"][0]["id"]
    post("several, in order", item(7, "ram"), of(domain_id=domain),
         item(project_id=sibling), item(1, region_id=None))
    post("again", item(6))
    post("twice in a body", item(1, "disk"), item(2, "disk"))
    post("a good and a bad one", item(1, "disk"), item(6))
    post("a project id that names a domain", item(3, "disk", project_id=domain))
    post("the same as a domain", of(domain_id=domain) | {"resource_name": "disk"})
    post("never registered", item(name="disc"))
    post("registered elsewhere", item(1, "ram", region_id=None))
    post("registered by another service", item(service_id=other))
    post("higher than the default", item(1000, "ram", project_id=sibling))
    t.list_("all or nothing", "limits", service)

    t.ask("show", "GET", f"{LIMITS}/{id_}")
    t.ask("head", "HEAD", f"{LIMITS}/{id_}")
    for step, query in {
        "by region": f"service_id={service}&region_id={region}",
        "by project": f"project_id={project}",
        "by domain": f"domain_id={domain}",
        "by a project that is a domain": f"project_id={domain}",
        "by both": f"domain_id={domain}&project_id={project}",
        "by all": f"service_id={service}&region_id={region}&resource_name=cores"
                  f"&project_id={project}",
        "by name": f"service_id={service}&resource_name=cores",
        "name contains": f"service_id={service}&resource_name__contains=or",
        "name starts with, whatever the case":
            f"service_id={service}&resource_name__istartswith=CO",
        "by an unknown project": f"project_id={_NO_ID}",
        "by an odd project": "project_id=a%20b",
        "by an odd domain": "domain_id=",
        "by a region nobody knows": f"service_id={service}&region_id=nowhere",
        "by a service that is no uuid": "service_id=compute",
        "by something unknown": f"service_id={service}&colour=red",
    }.items():
        t.ask(step, "GET", f"{LIMITS}?{query}")

    path = f"{LIMITS}/{id_}"
    for step, changes in {
        "nothing": {}, "the value": {"resource_limit": 6}, "the value to 0": {"resource_limit": 0},
        "the value to -1": {"resource_limit": -1}, "the words": {"description": "others"},
        "the words to nothing": {"description": ""}, "the words to none": {"description": None},
        "both": {"resource_limit": 9, "description": "at last"},
        "the project": {"project_id": sibling}, "the domain": {"domain_id": domain},
        "the name": {"resource_name": "ram"}, "the region": {"region_id": None},
        "the service": {"service_id": other}, "the id": {"id": _NO_ID},
        "something unknown": {"colour": "red"}, "the value to text": {"resource_limit": "5"},
        "the value to too much": {"resource_limit": 2147483648},
        "the value to null": {"resource_limit": None}, "the words to a number": {"description": 5},
    }.items():
        t.ask(f"change {step}", "PATCH", path, {"limit": changes})
    t.ask("after the changes", "GET", path)

    t.ask("change the default under limits", "PATCH", f"{REGISTERED}/{registered}",
          {"registered_limit": {"default_limit": 31}})
    t.ask("describe the default under limits", "PATCH", f"{REGISTERED}/{registered}",
          {"registered_limit": {"description": "x"}})
    t.ask("delete the default under limits", "DELETE", f"{REGISTERED}/{registered}")
    t.ask("delete", "DELETE", path)
    t.ask("delete again", "DELETE", path)
    t.ask("show what is gone", "GET", path)
    t.ask("change what is gone", "PATCH", path, {"limit": {"resource_limit": 1}})
    t.list_("what is left", "limits", service)


def limit_values(t: Teller) -> None:
    """Fields of limits, good and bad."""
    service, region, domain = t.service(), t.region(), t.domain()

    def item(name: str) -> dict[str, Any]:
        """Return a limit that would do, of a project of its own."""
        return {"service_id": service, "region_id": region, "resource_name": "cores",
                "resource_limit": 1,
                "project_id": t.project(f"project for {name}", domain)}

    t.register(service, region, cores=10)
    for field, values in {
        "service_id": _IDS, "region_id": _TEXTS, "resource_name": _TEXTS,
        "resource_limit": _AMOUNTS, "description": _TEXTS, "project_id": _IDS,
        "id": {"given": _NO_ID}, "colour": {"unknown": "red"}, "user_id": {"given": "x"},
    }.items():
        for what, value in values.items():
            step = f"{field}: {what}"
            t.ask(step, "POST", LIMITS, {"limits": [item(step) | {field: value}]})
    for field in ("service_id", "region_id", "resource_name", "resource_limit", "project_id"):
        made = item(f"no {field}")
        del made[field]
        t.ask(f"{field}: missing", "POST", LIMITS, {"limits": [made]})
    for what, value in _IDS.items():
        made = item(f"domain {what}") | {"domain_id": value}
        del made["project_id"]
        t.ask(f"domain_id: {what}", "POST", LIMITS, {"limits": [made]})
    both = item("both")
    t.ask("both", "POST", LIMITS, {"limits": [both | {"domain_id": domain}]})
    t.ask("a project, and null for a domain", "POST", LIMITS,
          {"limits": [both | {"domain_id": None}]})
    t.ask("null for a project, and a domain", "POST", LIMITS,
          {"limits": [both | {"project_id": None, "domain_id": domain}]})


def bodies(t: Teller) -> None:
    """Bodies that are none."""
    service = t.service()
    registered = t.register(service, None, cores=10)
    limit = t.set(service, None, "cores", 1, project_id=t.project("project", t.domain()))
    good = {"service_id": service, "resource_name": "ram", "default_limit": 1}
    for name, member, path in (
        ("registered", "registered_limit", f"{REGISTERED}/{registered}"),
        ("limit", "limit", f"{LIMITS}/{limit}"),
    ):
        collection = f"{member}s"
        for method, where, wrapper in (("POST", f"/{collection}", collection),
                                       ("PATCH", path, member)):
            for what, body in {
                "none": None, "no JSON": b"{", "empty": b"", "null": None, "a list": [],
                "no member": {}, "another member": {"things": []}, "member null": {wrapper: None},
                "member text": {wrapper: "x"}, "member empty list": {wrapper: []},
                "member list of null": {wrapper: [None]}, "not UTF-8": b'{"a": "\xff"}',
                "more members": {wrapper: [] if method == "POST" else {}, "more": 1},
            }.items():
                if what == "null":
                    body = b"null"
                t.ask(f"{name} {method}: {what}", method, where, body)
        t.ask(f"{name} GET with a body", "GET", path, {"x": 1})
    for media in ("text/plain", "application/json; charset=utf-8", "application/xml"):
        t.ask(f"as {media}", "POST", REGISTERED,
              {"registered_limits": [good | {"resource_name": media}]},
              headers={"Content-Type": media})
    for media in ("text/html", "*/*", "application/xml"):
        t.ask(f"accepting {media}", "GET", f"{REGISTERED}/{registered}",
              headers={"Accept": media})


def methods(t: Teller) -> None:
    """Every method on every route; slashes at the end; paths that are none."""
    service = t.service()
    registered = t.register(service, None, cores=10)
    limit = t.set(service, None, "cores", 1, project_id=t.project("project", t.domain()))
    for name, path in {
        "list of registered": f"{REGISTERED}?service_id={service}",
        "registered": f"{REGISTERED}/{registered}", "model": "/limits/model",
        "list of limits": f"{LIMITS}?service_id={service}", "limit": f"{LIMITS}/{limit}",
    }.items():
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE", "TRACE"):
            changes = method in ("POST", "PATCH", "DELETE")
            if changes and name in ("registered", "limit") and method != "POST":
                continue  # These exist, and have their own stories.
            t.ask(f"{method} {name}", method, path, {} if method in ("POST", "PATCH") else None)
    t.ask("slash list", "GET", f"{REGISTERED}/?service_id={service}")
    t.ask("slash limit", "GET", f"{LIMITS}/{limit}/")
    t.ask("slash model", "GET", "/limits/model/")
    for path in ("/limitz", f"{LIMITS}/{limit}/more", f"{LIMITS}/model/x", "/limits//x"):
        t.ask(f"GET {path.replace(limit, 'id')}", "GET", path)
    for what in ("x", _NO_ID, "x" * 300, "a%20b", "%C3%A9"):
        t.ask(f"limit {what[:40]}", "GET", f"{LIMITS}/{what}")
        t.ask(f"registered {what[:40]}", "DELETE", f"{REGISTERED}/{what}")


def callers(t: Teller) -> None:
    """Who may do what."""
    service, region, domain = t.service(), t.region(), t.domain()
    project, other = t.project("project", domain), t.project("other", domain)
    child = t.project("child", project, domain)
    registered = t.register(service, region, cores=10, ram=20)
    t.register(service, region, disk=10)
    limit = t.set(service, region, "cores", 5, project_id=project)
    foreign = t.set(service, region, "cores", 5, project_id=other)
    t.set(service, region, "cores", 7, domain_id=domain)
    t.set(service, region, "cores", 1, project_id=child)
    for who, caller in {
        "nobody": NOBODY, "system reader": SYSTEM_READER, "system admin": Caller("admin"),
        "member": Caller("member", project), "reader": Caller("reader", project),
        "service": Caller("service", project), "admin of a project": Caller("admin", project),
    }.items():
        for step, path in {
            "model": "/limits/model", "list registered": f"{REGISTERED}?service_id={service}",
            "show registered": f"{REGISTERED}/{registered}",
            "list limits": f"{LIMITS}?service_id={service}",
            "list limits of another": f"{LIMITS}?project_id={other}",
            "show own limit": f"{LIMITS}/{limit}", "show another's": f"{LIMITS}/{foreign}",
        }.items():
            t.ask(f"{who}: {step}", "GET", path, caller=caller)
        name = f"made by {who}"
        t.ask(f"{who}: register", "POST", REGISTERED, {"registered_limits": [
            {"service_id": service, "region_id": region, "resource_name": name,
             "default_limit": 1}]}, caller=caller)
        t.ask(f"{who}: set nothing registered", "POST", LIMITS, {"limits": [
            {"service_id": service, "region_id": region, "resource_name": "no such",
             "resource_limit": 1, "project_id": project}]}, caller=caller)
        t.ask(f"{who}: change registered", "PATCH", f"{REGISTERED}/{_NO_ID}",
              {"registered_limit": {}}, caller=caller)
        t.ask(f"{who}: delete registered", "DELETE", f"{REGISTERED}/{_NO_ID}", caller=caller)
        t.ask(f"{who}: change a limit", "PATCH", f"{LIMITS}/{limit}", {"limit": {}},
              caller=caller)
        t.ask(f"{who}: delete a limit", "DELETE", f"{LIMITS}/{_NO_ID}", caller=caller)
        t.ask(f"{who}: bad body", "POST", LIMITS, {"limits": 5}, caller=caller)
        t.ask(f"{who}: no such path", "GET", "/limitz", caller=caller)


def pages(t: Teller) -> None:
    """Lists in pieces."""
    service = t.service()
    t.register(service, None, a=1, b=2, c=3)
    for step, query in {
        "all in one": "limit=9", "as many as there are": "limit=3", "none": "limit=0",
        "less than none": "limit=-1", "text": "limit=x", "empty": "limit=",
        "after an unknown one": f"limit=2&marker={_NO_ID}",
    }.items():
        t.ask(step, "GET", f"{REGISTERED}?service_id={service}&{query}")
    path = f"{REGISTERED}?service_id={service}&resource_name__contains=a"
    t.ask("a page that is full", "GET", f"{path}&limit=1")
    first = t.ask("the first two", "GET", f"{REGISTERED}?service_id={service}&limit=2").document
    following = first["links"]["next"]
    if following:
        t.ask("the next ones", "GET", following[following.index(REGISTERED):])


def model(t: Teller) -> None:
    """The enforcement model."""
    t.ask("show", "GET", "/limits/model")
    t.ask("head", "HEAD", "/limits/model")


def strict_model(t: Teller) -> None:
    """The same where it is another one."""
    model(t)


def flat_tree(t: Teller) -> None:
    """In the flat model nothing binds across projects."""
    _tree(t, levels=3)


def strict_tree(t: Teller) -> None:
    """In strict_two_level a domain's limit bounds those of its projects."""
    _tree(t, levels=2)


def _tree(t: Teller, *, levels: int) -> None:
    service, region, domain = t.service(), t.region(), t.domain()
    project, sibling = t.project("project", domain), t.project("sibling", domain)
    parent = project
    for level in range(levels - 1):
        parent = t.project(f"level {level + 3}", parent, domain)
    t.ask("one level more", "POST", "/projects", {"project": {
        "name": f"deep-{t.tag}", "parent_id": parent, "domain_id": domain}})
    t.register(service, region, a=10, b=10, c=10, d=10, e=10, f=10, g=10, h=10, i=10)

    def item(name: str, value: int, **node: str) -> dict[str, Any]:
        return {"service_id": service, "region_id": region, "resource_name": name,
                "resource_limit": value, **node}

    def post(step: str, *items: dict[str, Any]) -> str | None:
        reply = t.ask(step, "POST", LIMITS, {"limits": list(items)})
        return reply.document["limits"][-1]["id"] if reply.status == 201 else None

    def patch(step: str, id_: str | None, value: int) -> None:
        if id_ is not None:
            t.ask(step, "PATCH", f"{LIMITS}/{id_}", {"limit": {"resource_limit": value}})

    # No limit of the domain: the default bounds.
    post("a: above the default", item("a", 11, project_id=project))
    at = post("a: at the default", item("a", 10, project_id=project))
    patch("a: raised above the default", at, 11)
    post("a: domain below its project", item("a", 9, domain_id=domain))
    upper = post("a: domain", item("a", 20, domain_id=domain))
    patch("a: raised below the domain", at, 20)
    patch("a: raised above the domain", at, 21)
    patch("a: domain lowered below its project", upper, 19)
    patch("a: lowered first", at, 5)
    patch("a: domain lowered after it", upper, 5)
    post("a: together more than the domain", item("a", 5, project_id=sibling))
    # Both in one body, in any order.
    post("b: child first", item("b", 30, project_id=project), item("b", 40, domain_id=domain))
    post("c: parent first", item("c", 40, domain_id=domain), item("c", 30, project_id=project))
    post("d: child above its parent", item("d", 41, project_id=project),
         item("d", 40, domain_id=domain))
    post("d: all or nothing", item("d", 4, project_id=project),
         item("d", 41, project_id=sibling))
    # 0 is zero, -1 is unlimited.
    post("e: parent 0", item("e", 0, domain_id=domain))
    post("e: child 7 under 0", item("e", 7, project_id=project))
    post("f: parent unlimited", item("f", -1, domain_id=domain))
    post("f: child 7 under unlimited", item("f", 7, project_id=project))
    post("g: parent 10", item("g", 10, domain_id=domain))
    post("g: child unlimited under 10", item("g", -1, project_id=project))
    # The parent project counts.
    post("h: project 5", item("h", 5, project_id=project))
    post("h: child 8 under project 5", item("h", 8, project_id=parent))
    child = post("i: child 3", item("i", 3, project_id=parent))
    post("i: project 2 above child 3", item("i", 2, project_id=project))
    patch("i: child above the default", child, 11)


def deletions(t: Teller) -> None:
    """What becomes of limits whose project, domain, service or region goes."""
    service, second, region, elsewhere = (
        t.service(), t.service("second"), t.region(), t.region("elsewhere"))
    domain, gone = t.domain(), t.domain("gone domain")
    project, kept = t.project("project", domain), t.project("kept", domain)
    inner = t.project("inner", gone)
    t.register(service, region, cores=10)
    t.register(service, elsewhere, cores=10)
    t.register(second, region, cores=10)
    for node in ({"project_id": project}, {"project_id": kept}, {"domain_id": gone},
                 {"project_id": inner}):
        t.set(service, region, "cores", 5, **node)
    t.ask("delete a project", "DELETE", f"/projects/{project}")
    t.ask("limits without the project", "GET", f"{LIMITS}?project_id={project}")
    t.ask("delete an enabled domain", "DELETE", f"/domains/{gone}")
    t.ask("disable the domain", "PATCH", f"/domains/{gone}", {"domain": {"enabled": False}})
    t.ask("delete the domain", "DELETE", f"/domains/{gone}")
    t.list_("limits without the domain", "limits", service)
    t.ask("delete a region", "DELETE", f"/regions/{elsewhere}")
    t.list_("registered limits without the region", "registered_limits", service)
    t.ask("delete a service", "DELETE", f"/services/{second}")
    t.list_("registered limits without the service", "registered_limits", second)
    t.ask("a new limit for the project that is gone", "POST", LIMITS, {"limits": [
        {"service_id": service, "region_id": region, "resource_name": "cores",
         "resource_limit": 1, "project_id": project}]})


def catalog(t: Teller) -> None:
    """What clients of limits read of the identity API."""
    service, region, domain = t.service(), t.region(), t.domain()
    project = t.project("project", domain)
    child = t.project("child", project, domain)
    t.make("projects", "closed", parent_id=domain, domain_id=domain, enabled=False)
    endpoint = t.make("endpoints", "endpoint", service_id=service, region_id=region,
                      interface="public", url="http://e.example/")
    for step, path in {
        "service": f"/services/{service}", "region": f"/regions/{region}",
        "endpoint": f"/endpoints/{endpoint}", "domain": f"/domains/{domain}",
        "project": f"/projects/{project}", "child": f"/projects/{child}",
        "endpoints of the service": f"/endpoints?service_id={service}",
        "endpoints of the region": f"/endpoints?service_id={service}&region_id={region}"
                                   "&interface=public",
        "no such endpoints": f"/endpoints?service_id={service}&interface=admin",
        "endpoints of no interface": "/endpoints?interface=x",
        "projects of the domain": f"/projects?domain_id={domain}",
        "projects below": f"/projects?parent_id={project}",
        "a domain as a project": f"/projects/{domain}",
        **{f"projects where {flag}": f"/projects?domain_id={domain}&{flag}" for flag in (
            "enabled=True", "enabled=FALSE", "enabled=1", "enabled=0", "enabled=y", "enabled=no",
            "enabled", "enabled=perhaps", "is_domain=False", "is_domain=True")},
        "domains as projects": f"/projects?is_domain=1&name=domain-{t.tag}",
        "projects as projects": f"/projects?is_domain=0&name=domain-{t.tag}",
        "domains below": f"/projects?is_domain=1&parent_id={domain}",
        "closed domains": f"/domains?enabled=0&name=domain-{t.tag}",
        "open domains": f"/domains?enabled=on&name=domain-{t.tag}",
        "no such service": f"/services/{_NO_ID}", "no such region": "/regions/nowhere",
        "no such endpoint": f"/endpoints/{_NO_ID}", "no such domain": f"/domains/{_NO_ID}",
        "no such project": f"/projects/{_NO_ID}",
    }.items():
        t.ask(step, "GET", path)
