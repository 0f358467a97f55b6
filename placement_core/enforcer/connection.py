"""The connection to the service that has the limits: login, endpoint and cached answers.

One ``Connection`` serves a whole process, so that a service which creates an ``Enforcer`` for each
request, as nova does, logs in once and revalidates cached answers.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from keystoneauth1 import exceptions, loading
from oslo_config import cfg

from placement_core import errors
from placement_core.enforcer import endpoints, opts
from placement_core.enforcer.answers import CachedAnswer, CachedAnswers
from placement_core.enforcer.exception import SessionInitError
from placement_core.plugin_api import loader
from placement_core.plugin_api.enforcement import EnforcementModel

T = TypeVar("T")

#: The path on which placement_core returns all limits that bind a project in one answer.
EFFECTIVE = "/capacity/v1/limits/effective"


class Connection:
    """A connection to the endpoint that ``[oslo_limit]`` describes. Thread-safe.

    That is the identity endpoint of the cloud, unless ``endpoint_override`` or
    ``service_type`` names another one. A forked process logs in by itself, and has no answers.

    :ivar place: the service and region whose limits count.
    :ivar one_question: whether the endpoint is placement_core, which answers ``EFFECTIVE``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Log in, and determine which limits count and which service has them.

        :raises SessionInitError: that service cannot be reached.
        :raises ValueError: the endpoint does not exist, or Keystone uses a model for which only
            placement_core has the data.
        """
        opts.register_opts(conf)
        self._conf = conf
        self._options = conf[opts.GROUP]
        self._begin_anew()
        try:
            self.place = endpoints.find(self._read_whole, self._options)
            self.one_question = self._has_one_question()
            if not self.one_question:
                self._require_flat()
        except exceptions.ClientException as error:
            raise SessionInitError(f"[{opts.GROUP}]: cannot ask for limits: {error}") from error
        # There are few models, so this dictionary stays small.
        self.get_model = functools.cache(self._load_model)
        _CONNECTIONS.add(self)

    def _begin_anew(self) -> None:
        """Begin without an adapter and answers, also in a forked process.

        Processes that share a socket read each other's answers, and a lock that another thread
        held when the process was forked would stay locked.
        """
        self._answers = CachedAnswers()
        self._adapter: Any = None

    def read(
        self, path: str, query: Mapping[str, str], reader: Callable[[Any], T], *,
        keep: bool = True,
    ) -> T:
        """Return a document as ``reader`` parses it.

        A cached document is revalidated if it is older than ``[oslo_limit] cache_seconds``.

        :param path: relative to the root of the API.
        :param reader: the parser, always the same one for a path.
        :param keep: False: fetch the document without using the cache.
        :raises keystoneauth1.exceptions.ClientException: the service does not answer.
        """
        question = (path, *sorted(query.items()))
        cached = self._answers.get(question) if keep else None
        now = time.monotonic()
        if cached and now - cached.asked_at < self._options.cache_seconds:
            cached_value: T = cached.value
            return cached_value
        headers = {"If-None-Match": cached.etag} if cached and cached.etag else {}
        response = self._get(path, query, headers)
        if cached and response.status_code == 304:
            answer = dataclasses.replace(cached, asked_at=now)
        else:
            answer = CachedAnswer(
                reader(response.json()), response.headers.get("ETag"), now,
                len(response.content))
        if keep:
            self._answers.put(question, answer)
        value: T = answer.value
        return value

    def _load_model(self, name: str) -> EnforcementModel:
        """Return an enforcement model by the name that a server gives it.

        :raises ValueError: it is not installed here.
        """
        try:
            model = loader.load(
                "placement_core.enforcement", name, EnforcementModel,  # type: ignore[type-abstract]
                option="the enforcement model in force")
        except errors.ConfigurationError as error:
            raise ValueError(str(error)) from error
        return model(self._conf)

    def _has_one_question(self) -> bool:
        if self._options.source != "auto":
            return bool(self._options.source == "capacity")
        query = {"service_id": self.place.service_id}
        return bool(
            self._get(EFFECTIVE, query, {}, accepted=(400, 403, 404)).status_code != 404)

    def _require_flat(self) -> None:
        name = self._read_whole("/v3/limits/model", {})["model"]["name"]
        if name != "flat":
            raise ValueError(
                f"Keystone's enforcement model is {name}; it does not answer what that "
                "needs: expected flat, or placement_core at this endpoint")

    def _read_whole(self, path: str, query: Mapping[str, str]) -> Any:
        return self._get(path, query, {}).json()

    def _get(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str],
        accepted: tuple[int, ...] = (),
    ) -> Any:
        url = self._get_root_url() + path
        response = self._get_adapter().get(
            url, params=dict(query), headers=dict(headers), raise_exc=False)
        if response.status_code >= 400 and response.status_code not in accepted:
            raise exceptions.from_response(response, "GET", url)
        return response

    def _get_root_url(self) -> str:
        endpoint = self._get_adapter().get_endpoint()
        if not endpoint:
            raise exceptions.EndpointNotFound("there is no identity endpoint in the catalog")
        return str(endpoint).rstrip("/").removesuffix("/v3")


    def _get_adapter(self) -> Any:
        if self._adapter is None:
            # Of threads that come at once, each makes one, and one of them stays.
            self._adapter = _make_adapter(self._conf)
        return self._adapter


_CONNECTIONS: weakref.WeakSet[Connection] = weakref.WeakSet()


def _begin_anew_after_fork() -> None:
    for connection in list(_CONNECTIONS):
        connection._begin_anew()


os.register_at_fork(after_in_child=_begin_anew_after_fork)


def _make_adapter(conf: cfg.ConfigOpts) -> Any:
    auth = loading.load_auth_from_conf_options(conf, opts.GROUP)
    if auth is None:
        raise exceptions.MissingAuthPlugin("auth_type is not set")
    session = loading.load_session_from_conf_options(conf, opts.GROUP, auth=auth)
    return loading.load_adapter_from_conf_options(
        conf, opts.GROUP, session=session,
        service_type=conf[opts.GROUP].service_type or "identity")


@functools.cache
def of_process() -> Connection:
    """Return the connection that ``oslo_config.cfg.CONF`` describes, made at first use.

    The process owns it, as it owns ``cfg.CONF``: services that use oslo.limit hand on neither.
    """
    return Connection(cfg.CONF)
