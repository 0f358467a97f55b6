"""Asks the capacity API; what it refuses becomes one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from keystoneauth1 import adapter, exceptions as keystone_exceptions
from osc_lib import exceptions

SERVICE_TYPE = "capacity"

#: The statuses of a service, or of a proxy before it, that is away for a while, or asks to wait.
_AWAY = (429, 502, 503, 504)
#: After how many seconds to ask again where nobody says.
_RETRY_SECONDS = 2
#: For how much longer than the service may wait its answer may take.
_ANSWER_SECONDS = 30


class Poll(NamedTuple):
    """An answer that may have been waited for.

    :ivar retry_after_seconds: when to ask again; 0: at once.
    """

    document: dict[str, Any]
    retry_after_seconds: int


class Client:
    """The capacity API at the endpoint that the adapter finds in the catalog.

    :ivar project_id: the project of the user's token; None: it has none.
    """

    def __init__(self, capacity: adapter.Adapter) -> None:
        self._capacity = capacity

    @property
    def project_id(self) -> str | None:
        """Return the project of the user's token."""
        project_id: str | None = self._capacity.get_project_id()
        return project_id

    def get(self, path: str, query: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the document at a path below the endpoint.

        :param query: what is None is left out.
        :raises exceptions.CommandError: the service refuses; with its own words.
        """
        return _read(self._capacity.get(path, params=_drop_none(query or {}), raise_exc=False))

    def poll(self, path: str, query: Mapping[str, object], *, wait_seconds: int) -> Poll:
        """Return the document at a path, for which the service waits until there is news.

        :param query: what is None is left out.
        :param wait_seconds: for how long it waits at most; 0: not at all.
        :raises Unavailable: the service, or Keystone, is away for a while, or asks to wait.
        :raises exceptions.CommandError: the service refuses; with its own words.
        """
        try:
            response = self._capacity.get(
                path, params=_drop_none({**query, "wait": wait_seconds or None}),
                raise_exc=False, timeout=wait_seconds + _ANSWER_SECONDS)
        except keystone_exceptions.RetriableConnectionFailure as error:
            # The rest repeats the URL, with the query.
            raise Unavailable(str(error).partition(": ")[0], _RETRY_SECONDS) from error
        except keystone_exceptions.HttpServerError as error:
            raise Unavailable(f"Keystone: {error}", _RETRY_SECONDS) from error
        return Poll(_read(response), _parse_retry_after(response, default=0))

    def ask(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer to a question that a body holds.

        :raises exceptions.CommandError: the service refuses; with its own words.
        """
        return _read(self._capacity.post(path, json=body, raise_exc=False))


class Refused(exceptions.CommandError):
    """The service refuses.

    :ivar status: the HTTP status.
    :ivar document: the error, as the service describes it.
    """

    def __init__(self, status: int, document: Mapping[str, Any], reason: str) -> None:
        super().__init__(f"{reason} (HTTP {status})")
        self.status = status
        self.document = document


class Unavailable(exceptions.CommandError):
    """The service, Keystone, or the network in between is away for a while, or asks to wait.

    :ivar retry_after_seconds: when to ask again.
    """

    def __init__(self, reason: str, retry_after_seconds: int) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


def _drop_none(query: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in query.items() if value is not None}


def _parse_retry_after(response: Any, *, default: int) -> int:
    """Return the seconds of the header; a proxy may send a date, for which the default stands."""
    text = response.headers.get("Retry-After", "")
    return int(text) if text.isascii() and text.isdecimal() else default


def _read(response: Any) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    is_away = response.status_code in _AWAY
    if not isinstance(document, dict):
        if not is_away:
            raise exceptions.CommandError(
                f"{response.url} is no capacity API: it answers {response.status_code} without a "
                "JSON document")
        # A proxy says so.
        document = {}
    if response.ok:
        return document
    error = (document.get("errors") or [document])[0]
    reason = error.get("detail") or error.get("message") or error.get("title") or response.reason
    line = " ".join(str(reason).split())
    if is_away:
        raise Unavailable(f"{line} (HTTP {response.status_code})",
                          _parse_retry_after(response, default=_RETRY_SECONDS))
    raise Refused(response.status_code, error, line)
