"""Fill in templates of cells' database URLs, and check that a URL is allowed.

A user who may write a cell mapping decides where this service connects to and, through a
driver's parameters, which files it reads. So each part of such a URL is checked against a list
of what is allowed; everything else is refused.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os.path
import re
import urllib.parse
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from placement_core import errors

#: The drivers that a URL may name, by backend; a URL that names none gets our default.
_DRIVERS = {
    "sqlite": frozenset({"", "pysqlite"}),
    "postgresql": frozenset({"", "psycopg", "psycopg2"}),
    "mysql": frozenset({"", "pymysql", "mysqldb"}),
}
#: Parameters that only say how to communicate with the server.
_HARMLESS = {
    "sqlite": frozenset[str](),
    "postgresql": frozenset({
        "application_name", "channel_binding", "client_encoding", "connect_timeout",
        "gssencmode", "keepalives", "keepalives_count", "keepalives_idle",
        "keepalives_interval", "load_balance_hosts", "port", "sslmode",
        "target_session_attrs", "tcp_user_timeout"}),
    "mysql": frozenset({
        "charset", "collation", "connect_timeout", "read_timeout", "ssl_check_hostname",
        "ssl_cipher", "ssl_verify_cert", "ssl_verify_identity", "use_unicode",
        "write_timeout"}),
}
#: Parameters that name a file of this machine.
_FILES = {
    "sqlite": frozenset[str](),
    "postgresql": frozenset({"sslcert", "sslcrl", "sslkey", "sslrootcert"}),
    "mysql": frozenset({"ssl_ca", "ssl_capath", "ssl_cert", "ssl_key"}),
}
#: Parameters that say where the server is, in addition to the host of the URL.
_PLACES = {
    "sqlite": frozenset[str](),
    "postgresql": frozenset({"host", "hostaddr"}),
    "mysql": frozenset({"unix_socket"}),
}

_FIELD = re.compile(r"\{([^{}]*)\}")
_SERVER = re.compile(r"(?P<hostname>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?")


@dataclasses.dataclass(frozen=True, slots=True)
class UrlRules:
    """What the operator allows in URLs of cells.

    :ivar hosts: shell patterns of hosts; empty: any host, but no socket in the file system.
    :ivar directories: the directories that SQLite databases and certificates may be in.
    """

    hosts: tuple[str, ...]
    directories: tuple[str, ...]


def fill(template: str, source: str) -> str:
    """Return a URL with its fields filled in from another URL.

    :param template: may have ``{scheme}``, ``{username}``, ``{password}``, ``{hostname}``,
        ``{port}``, ``{path}``, ``{query}`` and ``{fragment}``; ``{username1}`` and so on for
        the servers of a source that lists several. A URL with any other field is not a
        template, and is returned unchanged.
    :raises errors.ConfigurationError: the source has no value for a field.
    Source: nova, templated URLs in cell mappings.
    """
    fields = set(_FIELD.findall(template))
    if not fields:
        return template
    values = _parse_fields(source)
    if not fields <= values.keys():
        return template
    missing = sorted(field for field in fields if values[field] is None)
    if missing:
        raise errors.ConfigurationError(
            f"its template asks for {{{missing[0]}}}, which [cells] template_connection (or "
            "[api_database] connection) does not have")
    return _FIELD.sub(lambda match: str(values[match[1]]), template)


def has_fields(url: str) -> bool:
    """Return whether a URL has fields of a template."""
    return _FIELD.search(url) is not None


def _parse_fields(source: str) -> Mapping[str, str | None]:
    parts = urllib.parse.urlsplit(source)
    servers = [_parse_server(server) for server in parts.netloc.split(",")]
    values: dict[str, str | None] = {
        "scheme": parts.scheme, "path": parts.path.lstrip("/"), "query": parts.query,
        "fragment": parts.fragment, **servers[0]}
    if len(servers) > 1:
        for number, server in enumerate(servers, 1):
            values |= {f"{field}{number}": value for field, value in server.items()}
    return values


def _parse_server(netloc: str) -> dict[str, str | None]:
    login, _, place = netloc.rpartition("@")
    username, colon, password = login.partition(":")
    match = _SERVER.fullmatch(place)
    return {
        "username": username or None, "password": password if colon else None,
        "hostname": match["hostname"] if match else None,
        "port": match["port"] if match else None}


def require_allowed(url: sa.URL, rules: UrlRules) -> None:
    """Refuse a URL that could make this machine do more than connect to a database.

    :param url: its backend is one of ``sqlite``, ``postgresql`` and ``mysql``.
    :raises errors.ConfigurationError: a part of the URL is not allowed; the message names it.
    """
    backend = url.get_backend_name()
    driver = url.drivername.partition("+")[2]
    if driver not in _DRIVERS[backend]:
        raise errors.ConfigurationError(f"the driver {driver} is not one that cells may have")
    if backend == "sqlite":
        _require_file(url.database or "", "an SQLite database", rules)
    elif url.port is not None and not 0 < url.port < 65536:
        raise errors.ConfigurationError(f"there is no port {url.port}")
    for host in _list_hosts(url):
        _require_host(host, rules)
    for name, values in url.normalized_query.items():
        if name in _FILES[backend]:
            for path in values:
                _require_file(path, name, rules)
        elif name not in _HARMLESS[backend] | _PLACES[backend]:
            allowed = sorted(_HARMLESS[backend] | _FILES[backend] | _PLACES[backend])
            raise errors.ConfigurationError(
                f"the parameter {name} is not one that cells may have "
                f"({', '.join(allowed) or 'none'})")


def _list_hosts(url: sa.URL) -> Iterator[str]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return
    places = [place for name in _PLACES[backend]
              for value in url.normalized_query.get(name, ()) for place in value.split(",")]
    if url.host or not places:
        yield url.host or "localhost"
    for place in places:
        # A PostgreSQL URL may list several as host:port; a path is a socket.
        yield place if place.startswith(("/", "@")) else place.partition(":")[0]


def _require_host(host: str, rules: UrlRules) -> None:
    if rules.hosts:
        if any(fnmatch.fnmatchcase(host.lower(), pattern.lower()) for pattern in rules.hosts):
            return
    elif not host.startswith(("/", "@")):
        return
    raise errors.ConfigurationError(f"[cells] database_hosts does not name the host {host}")


def _require_file(path: str, what: str, rules: UrlRules) -> None:
    try:
        real = os.path.realpath(path)
        if any(os.path.commonpath([real, os.path.realpath(directory)])
               == os.path.realpath(directory) for directory in rules.directories):
            return
    except ValueError:
        # The path has a character that no path may have.
        pass
    raise errors.ConfigurationError(f"{what} has to be in one of [cells] directories")
