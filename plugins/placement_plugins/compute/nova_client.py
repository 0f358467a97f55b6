"""The connection to Nova, and the translation of its errors."""

from __future__ import annotations

import contextlib
import http
from collections.abc import Callable, Iterator
from typing import Any

from keystoneauth1 import exceptions as client_errors, loading
from openstack import connection, exceptions as sdk_errors
from oslo_config import cfg

from placement_core import client_sessions, errors
from placement_core.plugin_api.compute import ComputeRefused, ComputeUnavailable
from placement_plugins.compute import options

#: That of Rocky: flavors contain their extra specs, servers their flavor, and groups have one
#: policy. From 2.88 on, Nova asks the host for a hypervisor's details and waits for it.
_MICROVERSION = "2.64"

#: Refusals that may end with time, or when an operator frees something.
_TRANSIENT = frozenset({401, 403, 408, 413, 425, 429})


def connect(conf: cfg.ConfigOpts) -> connection.Connection:
    """Return a connection, without sending a request."""
    name = options.GROUP.name
    try:
        auth = loading.load_auth_from_conf_options(conf, name)
        session = client_sessions.load(conf, name, auth)
        adapter = loading.load_adapter_from_conf_options(conf, name, session=session, auth=auth)
    except (client_errors.ClientException, TypeError) as error:
        raise errors.ConfigurationError(f"[{name}]: {_format_error(error)}") from error
    if auth is None:
        raise errors.ConfigurationError(
            f"[{name}] auth_type: expected the way this service logs in at Keystone, such as "
            "password, because [reservations] compute_driver = nova; auth_section = "
            "keystone_authtoken uses the login of that section")
    session.session.hooks["response"].append(_require_document)
    settings: dict[str, Any] = {
        "interface": adapter.interface, "connect_retries": adapter.connect_retries,
        "status_code_retries": adapter.status_code_retries,
        "compute_endpoint_override": adapter.endpoint_override,
    }
    return connection.Connection(
        session=session, region_name=adapter.region_name, app_name="placement-core",
        compute_default_microversion=_MICROVERSION,
        **{key: value for key, value in settings.items() if value is not None})


def _require_document(response: Any, **settings: object) -> None:
    """Refuse a successful response that is not Nova's, such as the page of a proxy.

    :param response: a ``requests.Response``.
    :raises ValueError: the body is not JSON.
    """
    type_ = response.headers.get("Content-Type", "")
    if response.ok and response.content and "json" not in type_:
        raise ValueError(f"{response.url} answers with {type_}.")


@contextlib.contextmanager
def translated_errors(about: str) -> Iterator[None]:
    """Translate errors to ``ComputeUnavailable``, which is retried, or ``ComputeRefused``."""
    try:
        yield
    except errors.Error:
        raise
    except sdk_errors.HttpException as error:
        message = f"Nova, asked about {about}: {_format_error(error)}"
        # The refused GET may be that of a list whose marker was deleted meanwhile. A conflict
        # passes, most likely: somebody else changes the same object.
        if (error.method != "GET" and error.status_code != http.HTTPStatus.CONFLICT
                and is_refusal(error)):
            raise ComputeRefused(message) from error
        raise ComputeUnavailable(message) from error
    except (sdk_errors.SDKException, client_errors.ClientException) as error:
        raise ComputeUnavailable(f"Nova, asked about {about}: {_format_error(error)}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ComputeUnavailable(
            f"The answer about {about} is not Nova's: {_format_error(error)}") from error


@contextlib.contextmanager
def ignore_not_found() -> Iterator[None]:
    """Ignore a 404 of Nova for an object that need not be there."""
    try:
        yield
    except sdk_errors.NotFoundException as error:
        if not is_of_nova(error):
            raise


def none_if_not_found(get: Callable[[], Any]) -> Any:
    """Return what ``get`` returns, or None if Nova answers 404."""
    try:
        return get()
    except sdk_errors.NotFoundException as error:
        if not is_of_nova(error):
            raise
        return None


def is_refusal(error: sdk_errors.HttpException) -> bool:
    """Return whether Nova refuses what was asked for, and may not do otherwise a moment later."""
    status = error.status_code or 0
    return 400 <= status < 500 and status not in _TRANSIENT and is_of_nova(error)


def is_of_nova(error: sdk_errors.HttpException) -> bool:
    """Return whether an error response is Nova's; a proxy's 404 says nothing about a flavor."""
    if error.response is None:
        return False
    try:
        (fault,) = error.response.json().values()
        return bool(fault["code"] == error.status_code)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())
