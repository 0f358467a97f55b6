"""Where our answers differ from a real Keystone's, and why: {story: {step: reason}}.

B1 to B19 are defects of Keystone. Everything else needs a reason that the author of a
client would accept. What is never compared: ids and addresses, the wording of a 400,
the order of lists, what our refusals say after Keystone's sentence, and headers that
Keystone has not (ETag, Cache-Control).
"""

_B9 = "B9: Keystone's 405 has no error document"
_OPTIONS = "an answer without a body has no media type"
_NO_PATH = "Keystone answers a page of HTML where nothing is; we, the error document"
_DESCRIBED = "the model is described in our own words: it is not quite Keystone's"
_ROUTE = ("Keystone takes the model for a limit of that name when it is changed; it has no other "
          "methods than GET")
_POLICY_FIRST = "who may not do it is told so, whatever is sent and whether or not it exists"
_PAGE = "a page size is a number from 1 on; Keystone ignores others, or fails with 500"
_BELOW = "L7: a project's members see the limits of the projects below it"
_NOT_OF_PROJECT = "the refusal names domains, too, by project_id"

_COLLECTIONS = ("list of registered", "list of limits")
_MEMBERS = ("registered", "limit")
_WITH_ROLES = ("system reader", "member", "reader", "service")
_CALLERS = (*_WITH_ROLES, "system admin", "admin of a project")

OF: dict[str, dict[str, str]] = {
    "limits": {
        "change the value to 0": "B3",
        "change the words to nothing": "B3",
        "change the words to none": "B3",
    },
    "limit_values": {
        "project_id: null": "B8",
        "domain_id: null": "B8: Keystone keeps a limit of nobody, and finds it there again",
    },
    "methods": {
        **{f"{method} {route}": _B9 for route in _COLLECTIONS
           for method in ("PUT", "PATCH", "DELETE", "TRACE")},
        **{f"{method} {route}": _B9 for route in _MEMBERS for method in ("PUT", "POST", "TRACE")},
        **{f"OPTIONS {route}": _OPTIONS for route in (*_COLLECTIONS, *_MEMBERS)},
        **{f"{method} model": _ROUTE
           for method in ("OPTIONS", "PUT", "POST", "PATCH", "DELETE", "TRACE")},
        "GET model": _DESCRIBED,
        "slash model": _DESCRIBED,
        "GET /limitz": _NO_PATH,
        "GET /limits/id/more": _NO_PATH,
        "GET /limits/model/x": _NO_PATH,
        "GET /limits//x": "two slashes are not one",
    },
    "callers": {
        "nobody: bad body": _POLICY_FIRST,
        "nobody: no such path": "strangers are not told which paths there are",
        **{f"{who}: bad body": _POLICY_FIRST for who in _WITH_ROLES},
        **{f"{who}: delete a limit": _POLICY_FIRST for who in _WITH_ROLES},
        **{f"{who}: model": _DESCRIBED for who in _CALLERS},
        **{f"{who}: no such path": _NO_PATH for who in _CALLERS},
        "member: list limits": _BELOW,
        "reader: list limits": _BELOW,
        "service: show another's": "L7: services see in one what they see in the list",
    },
    "pages": {
        "none": _PAGE,
        "less than none": _PAGE,
        "text": _PAGE,
        "empty": _PAGE,
        "after an unknown one": "a marker that names nothing is refused; Keystone ignores markers",
        "the next ones": "B2",
    },
    "model": {"show": _DESCRIBED},
    "strict_model": {"show": _DESCRIBED},
    "strict_tree": {
        "a: domain below its project": _NOT_OF_PROJECT,
        "a: domain lowered below its project": _NOT_OF_PROJECT,
        "e: child 7 under 0": "B4",
        "f: child 7 under unlimited": "B5",
        "g: child unlimited under 10": "B6",
        "h: child 8 under project 5": "B7",
        "i: project 2 above child 3": "B7",
    },
    "deletions": {
        "limits without the domain": "B12",
        "registered limits without the region": "B12",
        "registered limits without the service": "B12",
    },
    "catalog": {
        "service": "a description that was not given is empty; Keystone leaves it out",
    },
}
