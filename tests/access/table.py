"""The table of who may do what: played with real tokens, rendered, compared."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from placement_core import app
from placement_core.http.apis import Api
from placement_core.http.operations import Operation
from tests.access import identities, worlds
from tests.access.identities import Cloud
from tests.access.worlds import AccessWorld, Answer
from tests.keystone_service import Keystone
from tests.outages import operations
from tests.outages.operations import Sample

FILE = pathlib.Path(__file__).parents[2] / "doc" / "reference" / "who_may.rst"
REWRITE = "python -m tests.access writes the table anew (make samples does, too)"

#: What a cell says beside the status of a refusal.
YES, OWN, EMPTY = "yes", "own", "empty"

#: {method and route: {kind of caller: cell}}
Table = Mapping[str, Mapping[str, str]]

#: Nobody gets tokens here: they come from the Keystone.
WITHOUT_SUCCESS = frozenset({"POST /v3/auth/tokens"})

_TITLES = {
    "placement": "The Placement API", "capacity": "The capacity API",
    "limits": "The limits API", "reservation": "The reservation API"}

_HEAD = """\
==========
Who may do
==========

.. Made by ``python -m tests.access`` (``make samples``) from the answers to real requests: do not
   edit.

What each kind of caller gets from each operation, with the default policy rules. Requests with
tokens of a real Keystone made this table, and a test compares it with each change of the code.
`Authentication and policy <../operator/access.rst>`_ says how to change who may do what, and how
long a revoked token is good.

The callers
===========

Most of them have one role in one project. In Keystone, ``admin`` implies ``manager``, which
implies ``member``, which implies ``reader``; ``service`` implies nothing.

:admin, service, manager, member, reader: a user with this role in the project
:other member: a member of another project, in another domain
:system admin, system reader: a role in the system
:domain admin, domain reader: a role in the domain of the project
:app cred: an application credential of a member, restricted, as they are by default
:free app cred: an ``unrestricted`` one: at Keystone, it may make other credentials
:unscoped: an administrator who chose no project
:expired: an administrator's token of yesterday
:revoked: an administrator's token that was revoked before it was used here
:forged: what looks like a token, and never was one
:none: no token

The cells
=========

Every request is valid. It is sent twice, about the project and, unless the token is no good, about
the other one; the status of a refusal is that of the first.

:yes: It succeeds, and tells of both projects if its answer tells of any. What a request makes
    without naming a project, such as a lease, belongs to the caller's.
:own: It succeeds, but only about the caller's project or domain and what is below it. Requests
    about others are refused, and lists do not have them.
:empty: It succeeds, and shows nothing.
:401, 403: It is refused.
:404: It is answered as if the object did not exist. ``POST /v3/auth/tokens`` is served with
    ``noauth2`` only.
"""


def play(keystone: Keystone) -> Table:
    """Ask every operation as everybody.

    :raises AssertionError: a request that was refused wrote something, a refusal is not in the
        format of its API, or nobody can call an operation.
    """
    cloud = identities.make(keystone)
    table: dict[str, dict[str, str]] = {}
    with worlds.make_world(cloud) as world:
        for sample in operations.each():
            row = _play_operation(world, cloud, sample)
            if sample.operation not in WITHOUT_SUCCESS and not {YES, OWN} & set(row.values()):
                raise AssertionError(f"{sample.operation}: nobody can call it: {row}")
            table[sample.operation] = row
    return table


def _play_operation(world: AccessWorld, cloud: Cloud, sample: Sample) -> dict[str, str]:
    """Return the row of an operation."""
    requests = [world.make_request(sample, project_id) for project_id in cloud.domains]
    gathered = {}
    for who, token in cloud.tokens.items():
        gathered[who] = answers = []
        for request in requests:
            answers.append(_check(sample, who, world.ask(request, token)))
            if answers[-1].status == 401:
                # Who has no good token has none for the other project.
                break
    owners = [*cloud.domains, *cloud.domains.values()]
    named = {who: _count_named(answers, owners) for who, answers in gathered.items()}
    return {who: _describe(answers, named[who], max(named.values()))
            for who, answers in gathered.items()}


def _describe(answers: Sequence[Answer], named: int, most: int) -> str:
    """Return a cell.

    :param answers: to the request about the caller's project, and about the other one, which is
        missing behind a 401.
    :param named: how many owners the answers name; ``most`` is that of those who are told most.
    """
    if answers[0].status >= 400:
        return str(answers[0].status)
    _, about_other = answers
    if most and not named:
        return EMPTY
    return YES if about_other.status < 400 and named == most else OWN


def _count_named(answers: Sequence[Answer], owners: Sequence[str]) -> int:
    """Return how often answers that are no refusals name one of the projects or domains."""
    return sum(
        owner in answer.text for answer in answers if answer.status < 400 for owner in owners)


def _check(sample: Sample, who: str, answer: Answer) -> Answer:
    """Return an answer that keeps the rules of refusals; the world checks their documents."""
    what = f"{sample.operation} by {who}: {answer.status} {answer.text[:500]}"
    if answer.status < 400:
        return answer
    assert answer.status in (401, 403, 404), what
    assert not answer.wrote, f"{what}: something was written"
    assert answer.headers["Content-Type"].startswith("application/json"), what
    if answer.status == 401:
        assert 'Keystone uri="' in answer.headers["WWW-Authenticate"], what
    return answer


def list_operations() -> Iterator[tuple[Api, Operation]]:
    """Yield every operation of each API."""
    for api in app.APIS:
        for operation in api.operations:
            yield api, operation


# The document ---------------------------------------------------------------


def render(table: Table) -> str:
    """Return the document with the table, a line for each operation."""
    return "\n".join([_HEAD, *(line for api in app.APIS for line in _render_api(api, table))])


def _render_api(api: Api, table: Table) -> Iterator[str]:
    title = _TITLES[api.name]
    yield from (title, "=" * len(title), "", ".. csv-table::", "   :class: who-may")
    for number, operation in enumerate(api.operations):
        name = f"{operation.method} {api.prefix}{operation.path}"
        if number == 0:
            yield f"   :header: operation, rule, {', '.join(table[name])}"
            yield ""
        yield ", ".join([f"   ``{name}``", _render_rules(operation), *table[name].values()])
    yield ""


def _render_rules(operation: Operation) -> str:
    return f"``{operation.policy}``" if operation.policy else "no rule"


def compare(made: str) -> list[str]:
    """Return the lines in which the committed document differs from a new one."""
    kept = FILE.read_text() if FILE.exists() else ""
    return [line for line in difflib.unified_diff(
        kept.splitlines(), made.splitlines(), "committed", "now", lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))]
