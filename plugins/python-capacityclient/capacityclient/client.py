"""Asks the capacity API; what it refuses becomes one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import adapter
from osc_lib import exceptions

SERVICE_TYPE = "capacity"

_FORBIDDEN = 403


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
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        return _read(self._capacity.get(path, params=parameters, raise_exc=False))

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


def _read(response: Any) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise exceptions.CommandError(
            f"{response.url} is no capacity API: it answers {response.status_code} without a "
            "JSON document")
    if response.ok:
        return document
    error = (document.get("errors") or [document])[0]
    reason = error.get("detail") or error.get("message") or error.get("title") or response.reason
    raise Refused(response.status_code, error, " ".join(str(reason).split()))
