"""What the ``openstack`` client asks of its plugins."""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1 import adapter

from capacityclient.client import SERVICE_TYPE, Client

API_NAME = "capacity"
API_VERSION_OPTION = "os_capacity_api_version"
API_VERSIONS = {"1": "capacityclient.client.Client"}
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Client:
    """Return a client with the user's token, region, interface and endpoint override."""
    config = instance.sdk_connection.config
    return Client(adapter.Adapter(
        instance.session, service_type=SERVICE_TYPE, interface=config.get_interface(SERVICE_TYPE),
        region_name=config.get_region_name(SERVICE_TYPE),
        endpoint_override=config.get_endpoint(SERVICE_TYPE)))


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the option that every plugin has."""
    parser.add_argument(
        "--os-capacity-api-version", metavar="<capacity-api-version>",
        default=DEFAULT_API_VERSION, choices=sorted(API_VERSIONS),
        help="version of the capacity API; there is one (default: 1)")
    return parser
