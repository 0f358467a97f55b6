"""Adds the operations of the APIs to Pyramid as routes and views.

Each path has one view (``PathView``) with its operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyramid.config import Configurator

from placement_core.http import conditional, tweens
from placement_core.http.apis import Api, ApisByPath
from placement_core.http.openapi import OpenApi
from placement_core.http.operations import Operation
from placement_core.http.path_views import PathView
from placement_core.http.policy import Authorizer
from placement_core.services import Services


def include(
    config: Configurator, apis: Sequence[Api], services: Services, authorizer: Authorizer,
    bodies: conditional.Bodies,
) -> None:
    """Add the routes of every API to a Pyramid configuration.

    :param apis: a path belongs to the one with the longest prefix of it.
    :param bodies: the cache of bodies for conditional reads.
    :raises ValueError: an operation is wrong: its policy rule is unknown, or
        another one has the same method and path.
    """
    openapi = OpenApi([api for api in apis if api.in_openapi])
    for api in apis:
        _add_routes(config, api, services, authorizer, bodies, openapi)
    config.registry.placement_core_apis = ApisByPath(apis)
    config.add_tween(f"{tweens.__name__}.api_tween")


def _add_routes(
    config: Configurator, api: Api, services: Services, authorizer: Authorizer,
    bodies: conditional.Bodies, openapi: OpenApi,
) -> None:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in api.operations:
        path = f"{api.prefix}{operation.path}"
        for rule in (operation.policy, *operation.also):
            if rule is not None and not authorizer.knows(rule):
                raise ValueError(f"{operation.method} {path}: no policy rule {rule}")
        methods = by_path.setdefault(path, {})
        if operation.method in methods:
            raise ValueError(f"{operation.method} {path} is there twice")
        methods[operation.method] = operation
    for path, methods in by_path.items():
        config.add_route(path, path)
        config.add_view(PathView(api, methods, services, authorizer, bodies, openapi),
                        route_name=path)
