"""A remote placement: reads the usage of projects over HTTP."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson
from keystoneauth1 import adapter, exceptions, loading
from oslo_config import cfg

from placement_core import client_sessions, errors
from placement_core.db import texts
from placement_core.plugin_api.counting import CONSUMERS
from placement_plugins import keystone

GROUP = cfg.OptGroup(
    "placement_client", title="The placement that usage is counted from",
    help="With [quota] count_usage_from_placement: how to log in at a remote placement and "
    "find it. Empty (no auth_type, no auth_section and no endpoint_override): this service "
    "is the placement. Its policy must let the user read usages of all projects, and "
    "allocations. auth_section = keystone_authtoken takes the login from that section.")

_TIMEOUT_SECONDS = 10
_LONGEST_ID = 255
_USAGES = "1.9"
_OWNERS = "1.12"
_CONSUMER_TYPES = "1.38"
#: The type of consumers that hold the old allocations of an instance that is moved.
_MIGRATION = "MIGRATION"
_COUNT = "consumer_count"


class PlacementUnreachable(errors.Unavailable):
    """The remote placement does not answer, so the usage is not known."""

    code = "quota.placement.unreachable"


class PlacementRefuses(errors.Unavailable):
    """The remote placement refuses the service's requests: login or configuration is wrong."""

    code = "quota.placement.refused"


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
    cfg.set_defaults(options, timeout=_TIMEOUT_SECONDS, service_type="placement")
    return options


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Return whether ``[placement_client]`` configures a remote placement."""
    _register(conf)
    group = conf[GROUP.name]
    return bool(group.auth_type or group.auth_section or group.endpoint_override)


def _register(conf: cfg.ConfigOpts) -> None:
    conf.register_group(cfg.OptGroup(GROUP.name, GROUP.title, GROUP.help))
    loading.register_auth_conf_options(conf, GROUP.name)
    conf.register_opts(_connection_options(), group=GROUP.name)


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerUsage:
    """The allocations of a consumer, {resource class or CONSUMERS: amount}, and its owner."""

    project_id: str | None
    user_id: str | None
    amounts: Mapping[str, int]


class RemotePlacement:
    """Queries a remote placement, without caching. Thread-safe.

    :raises errors.ConfigurationError: ``[placement_client]`` is incomplete.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        name = GROUP.name
        _register(conf)
        try:
            auth = loading.load_auth_from_conf_options(conf, name)
            session = client_sessions.load(conf, name, auth)
            self._adapter: adapter.Adapter = loading.load_adapter_from_conf_options(
                conf, name, session=session, auth=auth)
        except (exceptions.ClientException, TypeError) as error:
            raise errors.ConfigurationError(f"[{name}]: {_format_error(error)}") from error
        if auth is None:
            raise errors.ConfigurationError(
                f"[{name}] auth_type: expected the way this service logs in at the placement of "
                "endpoint_override, such as password; none for a placement that asks for no "
                "token")
        self._session = session

    def usages(
        self, project_id: str, user_id: str | None = None, *, consumers: bool
    ) -> dict[str, int]:
        """Return the usage of a project, or of one user in it: {resource class: amount}.

        :param consumers: whether to count consumers, too, without migrations.
        :raises errors.Unavailable: the remote placement does not answer.
        """
        parameters = {"project_id": project_id} | ({} if user_id is None else {"user_id": user_id})
        if not all(map(_is_possible_owner, parameters.values())):
            return {}
        path = "/usages"
        document = self._get(path, parameters, _CONSUMER_TYPES if consumers else _USAGES)
        try:
            if consumers:
                return _sum_types(document["usages"])
            return {name: _parse_amount(used) for name, used in document["usages"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _refuse_answer(path, error)

    def held(self, consumer_uuid: str, *, consumers: bool) -> ConsumerUsage:
        """Return the allocations and the owner of a consumer.

        :param consumers: whether the consumer itself counts, too, unless it is a migration.
        :raises errors.Unavailable: the remote placement does not answer.
        """
        if not keystone.is_uuid(consumer_uuid):
            return ConsumerUsage(None, None, {})
        path = f"/allocations/{urllib.parse.quote(consumer_uuid, safe='')}"
        document = self._get(path, {}, _CONSUMER_TYPES if consumers else _OWNERS)
        try:
            amounts: dict[str, int] = {}
            for allocation in document["allocations"].values():
                for name, used in allocation["resources"].items():
                    amounts[name] = amounts.get(name, 0) + _parse_amount(used)
            if consumers and amounts and document["consumer_type"] != _MIGRATION:
                amounts[CONSUMERS] = 1
            return ConsumerUsage(document.get("project_id"), document.get("user_id"), amounts)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _refuse_answer(path, error)

    def _get(self, path: str, parameters: Mapping[str, str], version: str) -> Any:
        try:
            url = self._adapter.get_endpoint(skip_discovery=True)
            if not url:
                raise PlacementRefuses(
                    "The catalog has no placement for the user of "
                    f"[{GROUP.name}]: set endpoint_override, or region_name and "
                    "valid_interfaces.")
            response = self._session.get(
                url.rstrip("/") + path, authenticated=True, raise_exc=False,
                params=dict(parameters),
                headers={"Accept": "application/json",
                         "OpenStack-API-Version": f"placement {version}"})
        except (exceptions.Unauthorized, exceptions.Forbidden) as error:
            raise PlacementRefuses(
                f"The login of [{GROUP.name}] is refused: {_format_error(error)}") from error
        except exceptions.ClientException as error:
            raise PlacementUnreachable(
                f"The placement that usage is counted from does not answer: {_format_error(error)}"
            ) from error
        if 400 <= response.status_code < 500 and response.status_code != 429:
            raise PlacementRefuses(
                f"The placement that usage is counted from refuses GET {path} to the user of "
                f"[{GROUP.name}] ({response.status_code}).")
        if response.status_code != 200:
            raise PlacementUnreachable(
                "The placement that usage is counted from answers GET "
                f"{path} with {response.status_code}.")
        try:
            return orjson.loads(response.content)
        except ValueError as error:
            _refuse_answer(path, error)


def _sum_types(usages: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of the amounts over all types of consumers."""
    total: dict[str, int] = {}
    for consumer_type, amounts in usages.items():
        for name, used in amounts.items():
            if name != _COUNT:
                total[name] = total.get(name, 0) + _parse_amount(used)
            elif consumer_type != _MIGRATION:
                total[CONSUMERS] = total.get(CONSUMERS, 0) + _parse_amount(used)
    return total


def _is_possible_owner(id_: str) -> bool:
    """Return whether a project or user may have an id; placement answers 400 for others."""
    return 1 <= len(id_) <= _LONGEST_ID and texts.is_storable(id_)


def _parse_amount(used: object) -> int:
    if not isinstance(used, int) or isinstance(used, bool) or used < 0:
        raise ValueError(f"{used!r} is no amount")
    return used


def _refuse_answer(path: str, error: Exception) -> NoReturn:
    raise PlacementUnreachable(
        f"The answer to GET {path} is not one of placement's; see endpoint_override of "
        f"[{GROUP.name}].") from error


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())
