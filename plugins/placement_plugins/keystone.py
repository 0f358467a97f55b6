"""A remote Keystone: its options, and the client that reads from it.

Both drivers (limits, catalog) use a ``Client``, which caches the answers (``keystone_cache``).
"""

from __future__ import annotations

import dataclasses
import re
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from keystoneauth1 import adapter, exceptions, loading
from keystoneauth1.identity import base as identity
from oslo_config import cfg

from placement_core import client_sessions, errors
from placement_plugins.keystone_cache import AnswerCache, Clock, FetchResult, Outage

T = TypeVar("T")

#: Creates the record that is cached for one object of an answer.
Make = Callable[[Mapping[str, Any]], T]

GROUP = cfg.OptGroup(
    "keystone_client", title="The Keystone that the keystone drivers ask",
    help="How the drivers keystone of [limits] and [catalog] log in and find Keystone. "
    "auth_section = keystone_authtoken takes the login from that section. The user needs "
    "a role on the system (role reader, system_scope = all) or the role admin: Keystone "
    "shows others only their own project's limits.")

_TIMEOUT_SECONDS = 10

#: With one of these roles in a project, Keystone shows the limits of all projects.
#: Source: keystone 30, ``LimitsResource.get``.
_ROLES_THAT_SEE_ALL = frozenset({"admin", "service"})

_LONGEST_REGION_ID = 255
_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")


class KeystoneRefuses(errors.Unavailable):
    """Keystone refuses the service's requests: the login or the configuration is wrong."""

    code = "placement.keystone.refused"


def may_be_id(id_: str) -> bool:
    """Return whether a service, an endpoint, a domain or a project may have an id.

    Keystone answers 400 for others, or a URL cannot contain them.
    """
    return _ID.fullmatch(id_) is not None


def may_be_region(id_: str | None) -> bool:
    """Return whether a region may have an id; Keystone answers 400 for others."""
    return id_ is None or 1 <= len(id_) <= _LONGEST_REGION_ID


def is_uuid(text: str) -> bool:
    """Return whether a text is a uuid, with or without dashes; some filters accept no other."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def freshness_options(what: str) -> list[cfg.Opt]:
    """Return the options that bound the age of cached answers.

    :param what: the kind of data in the answers, for the help.
    """
    return [
        cfg.IntOpt(
            "cache_seconds", default=30, min=0,
            help=f"With driver = keystone: seconds for which an answer about {what} is used "
            "without asking again. A change in Keystone takes effect here after that time. "
            "0 asks Keystone each time.",
        ),
        cfg.IntOpt(
            "max_stale_seconds", default=3600, min=0,
            help=f"With driver = keystone: how old an answer about {what} may get, in seconds, "
            "while Keystone cannot be reached. After that, whatever depends on it is refused "
            "with 503 until Keystone answers. 0 refuses at once.",
        ),
    ]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of the login for oslo-config-generator."""
    return [(GROUP, [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
        *_connection_options(),
    ])]


def _connection_options() -> list[cfg.Opt]:
    options = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(options, timeout=_TIMEOUT_SECONDS, service_type="identity")
    return options


class Client:
    """Reads from one Keystone, with a cache. Thread-safe.

    :param needed_by: the option and value that need Keystone, for errors.
    :param freshness: the group with ``cache_seconds`` and ``max_stale_seconds``.
    :raises errors.ConfigurationError: ``[keystone_client]`` is incomplete.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, *, needed_by: str, freshness: str,
        clock: Clock = time.monotonic,
    ) -> None:
        self._connection = KeystoneConnection(conf, needed_by=needed_by)
        group = conf[freshness]
        self._answers = AnswerCache(
            group.cache_seconds, group.max_stale_seconds,
            option=f"[{freshness}] max_stale_seconds", clock=clock)

    def one(
        self, collection: str, id_: str, make: Make[T], parameters: Mapping[str, str] | None = None
    ) -> T | None:
        """Return one object, or None if Keystone answers that it does not exist.

        :param collection: such as ``services``.
        :param id_: an id that the path of a URL can contain.
        :raises errors.Unavailable: Keystone does not answer, and no cached answer is usable.
        """
        path = f"/{collection}/{urllib.parse.quote(id_, safe='')}"
        query = dict(parameters or {})

        def fetch(tag: str | None) -> FetchResult | None:
            return self._connection.one(path, query, collection.removesuffix("s"), make, tag)

        record: T | None = self._answers.ask((path, *sorted(query.items())), fetch)
        return record

    def all(self, collection: str, make: Make[T], **filters: str | None) -> tuple[T, ...]:
        """Return the objects of a collection that match every filter that is not None.

        :raises errors.Unavailable: Keystone does not answer, and no cached answer is usable.
        """
        path = f"/{collection}"
        query = {name: value for name, value in filters.items() if value is not None}

        def fetch(tag: str | None) -> FetchResult | None:
            return self._connection.all(path, query, collection, make, tag)

        records: tuple[T, ...] = self._answers.ask((path, *sorted(query.items())), fetch)
        return records


class KeystoneConnection:
    """Sends requests to Keystone, as the user of ``[keystone_client]``.

    It logs in with the first request.

    :raises errors.ConfigurationError: ``[keystone_client]`` is incomplete.
    """

    def __init__(self, conf: cfg.ConfigOpts, *, needed_by: str) -> None:
        name = GROUP.name
        conf.register_group(cfg.OptGroup(name, GROUP.title, GROUP.help))
        loading.register_auth_conf_options(conf, name)
        conf.register_opts(_connection_options(), group=name)
        try:
            auth = loading.load_auth_from_conf_options(conf, name)
            session = client_sessions.load(conf, name, auth)
            self._adapter: adapter.Adapter = loading.load_adapter_from_conf_options(
                conf, name, session=session, auth=auth)
        except (exceptions.ClientException, TypeError) as error:
            raise errors.ConfigurationError(f"[{name}]: {_format_error(error)}") from error
        if auth is None:
            raise errors.ConfigurationError(
                f"[{name}] auth_type: expected the way this service logs in at Keystone, such as "
                f"password, because {needed_by}; auth_section = keystone_authtoken uses the "
                "login of that section")
        self._auth = auth
        self._session = session

    def one(
        self, path: str, parameters: Mapping[str, str], member: str, make: Make[Any],
        tag: str | None,
    ) -> FetchResult | None:
        """Fetch an object.

        :returns: a result with the value None if the object does not exist; None if the answer
            with this ``tag`` is still current.
        """
        reply = self._get(path, parameters, tag)
        if reply is None:
            return None
        if reply.status == 404:
            return FetchResult(None, reply.tag)
        value = _parse(reply, path, lambda document: make(document[member]))
        return FetchResult(value, reply.tag)

    def all(
        self, path: str, parameters: Mapping[str, str], collection: str, make: Make[Any],
        tag: str | None,
    ) -> FetchResult | None:
        """Fetch all pages of a list; None: the answer with this ``tag`` is still current."""
        first = reply = self._get(path, parameters, tag)
        if reply is None:
            return None
        rows: dict[str, Any] = {}
        while True:
            page = _parse(reply, path, lambda document: {
                row["id"]: make(row) for row in document[collection]})
            next_query = _parse(reply, path, _next_query)
            # Keystone returns the same page of limits repeatedly (spec limits, B2).
            is_new = not page.keys() <= rows.keys()
            rows.update(page)
            if next_query is None or not is_new:
                break
            next_reply = self._get(path, next_query, None)
            assert next_reply is not None
            reply = next_reply
        if _parse(reply, path, lambda document: document.get("truncated")):
            raise KeystoneRefuses(
                f"Keystone cuts its answer to GET {path} off after {len(rows)} objects and does "
                "not give the rest: raise list_limit in its configuration.")
        return FetchResult(tuple(rows.values()), first.tag if reply is first else None)

    def _get(
        self, path: str, parameters: Mapping[str, str], tag: str | None
    ) -> _Reply | None:
        """Send a request; None: the answer with this ``tag`` is still current.

        :raises Outage: there is no answer, or it is not Keystone's.
        :raises KeystoneRefuses: the service is not allowed to send the request.
        """
        try:
            url = self._get_url()
            response = self._session.get(
                f"{url}{path}", authenticated=True, raise_exc=False, params=dict(parameters),
                headers={"Accept": "application/json"} | ({"If-None-Match": tag} if tag else {}))
        except (exceptions.Unauthorized, exceptions.Forbidden) as error:
            raise KeystoneRefuses(
                f"Keystone refuses the login of [{GROUP.name}]: {_format_error(error)}") from error
        except exceptions.ClientException as error:
            raise Outage(_format_error(error)) from error
        status = response.status_code
        if status == 304 and tag:
            return None
        if status in (401, 403):
            raise KeystoneRefuses(
                f"Keystone refuses GET {path} to the user of [{GROUP.name}] ({status}): it needs "
                "the role reader with system_scope = all, or the role admin.")
        reply = _Reply(status, _parse_document(response.content), response.headers.get("ETag"))
        if status == 200 or (status == 404 and _is_of_keystone(reply)):
            return reply
        if 400 <= status < 500 and status != 429 and _is_of_keystone(reply):
            raise KeystoneRefuses(
                f"Keystone refuses GET {path} with {status}: {reply.document['error']['message']}")
        raise Outage(f"GET {url}{path} is answered with {status}")

    def _get_url(self) -> str:
        """Return the URL of Keystone's v3 API.

        The catalog may list it with or without the version, so no discovery is needed.
        """
        self._require_overview()
        endpoint = self._adapter.get_endpoint(skip_discovery=True)
        if not endpoint:
            raise KeystoneRefuses(
                "Keystone's catalog has no endpoint of its own for the user of "
                f"[{GROUP.name}]: set endpoint_override, or region_name and valid_interfaces.")
        url = endpoint.rstrip("/")
        return url if url.endswith("/v3") else f"{url}/v3"

    def _require_overview(self) -> None:
        """Refuse a login for which Keystone returns incomplete lists without saying so.

        Source: keystone 30, ``LimitsResource.get``, ``ProjectsResource.get``.
        """
        if not isinstance(self._auth, identity.BaseIdentityPlugin):
            return  # Without a token there are no roles: Keystone trusts the service itself.
        access = self._auth.get_access(self._session)
        if access.system_scoped:
            return
        if not access.project_scoped or _ROLES_THAT_SEE_ALL.isdisjoint(access.role_names or ()):
            raise KeystoneRefuses(
                f"Keystone shows the user of [{GROUP.name}] only a part of the limits and "
                "projects: it needs the role reader with system_scope = all, or the role admin "
                "in a project.")


@dataclasses.dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    #: None: the body is not JSON.
    document: Any
    tag: str | None


def _parse_document(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        return None


def _is_of_keystone(reply: _Reply) -> bool:
    """Return whether an error response is Keystone's; a proxy's 404 says nothing."""
    try:
        return bool(reply.document["error"]["code"] == reply.status)
    except (KeyError, TypeError):
        return False


def _parse(reply: _Reply, path: str, make: Callable[[Any], T]) -> T:
    """Return a document as ``make`` parses it.

    :raises Outage: the document is not one of Keystone's.
    """
    try:
        return make(reply.document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Outage(f"the answer to GET {path} is not Keystone's") from error


def _next_query(document: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the query parameters of the next page, if there is one.

    The rest of the link is ignored, because its host may not be reachable from here.
    """
    link = (document.get("links") or {}).get("next")
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).query)) if link else None


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())
