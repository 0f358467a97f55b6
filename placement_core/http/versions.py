"""Which microversion a request asks for. Source: spec placement_api §1.2."""

from __future__ import annotations

import dataclasses
import functools

import microversion_parse

from placement_core.http.errors import HTTPError
from placement_core.http.operations import Version

HEADER = "OpenStack-API-Version"
_ENVIRON_KEY = "HTTP_OPENSTACK_API_VERSION"


def format_version(version: Version) -> str:
    """Return the number as clients write it, such as ``1.39``."""
    return f"{version[0]}.{version[1]}"


@dataclasses.dataclass(frozen=True)
class Versions:
    """The microversions an API offers.

    :ivar service_type: the name of the service in the version header.
    :ivar default: the version of a request that asks for none.
    """

    service_type: str
    lowest: Version
    newest: Version
    default: Version

    def get_requested(self, environ: dict[str, str]) -> Version:
        """Return the version the header asks for; ``default`` without one.

        :raises HTTPError: 400 for a malformed version, 406 for one that is not offered.
        """
        header = environ.get(_ENVIRON_KEY)
        if header is None:
            return self.default
        return _parse(self, header)


@functools.lru_cache(maxsize=256)
def _parse(versions: Versions, header: str) -> Version:
    requested = microversion_parse.get_version({HEADER: header}, versions.service_type)
    if requested is None:
        return versions.default
    if requested == "latest":
        return versions.newest
    major, dot, minor = requested.partition(".")
    if not (dot and _is_number(major) and _is_number(minor)):
        raise HTTPError(400, f"invalid version string: {requested}")
    version = (int(major), int(minor))
    if not versions.lowest <= version <= versions.newest:
        raise HTTPError(
            406,
            f"Unacceptable version header: {requested}",
            members={
                "max_version": format_version(versions.newest),
                "min_version": format_version(versions.lowest),
            },
        )
    return version


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) < 10
