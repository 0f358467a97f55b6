"""The Placement API as the pipeline takes it: its routes and its habits."""

from placement_core.http.pipeline import Api
from placement_core.http.placement_api import microversions, routes
from placement_core.http.versions import Versions

API = Api(
    operations=routes.OPERATIONS,
    versions=Versions(
        microversions.SERVICE_TYPE, microversions.LOWEST, microversions.NEWEST),
    cache_headers_since=microversions.CACHE_HEADERS,
    error_codes_since=microversions.ERROR_CODES,
)
