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
from collections.abc import Collection, Iterator, Mapping

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

#: Makes a URL the arguments of psycopg and psycopg2 alike.
_PSYCOPG = sa.URL.create("postgresql+psycopg").get_dialect()()
_SOCKET_STARTS = ("/", "@")
#: The socket that a driver takes by itself; nobody knows its path here.
_DEFAULT_SOCKET = "/"
_ADDRESS = re.compile(r"[0-9.]+")
#: Begins as an address does, and has nothing that an address has not.
_ADDRESS_PATTERN = re.compile(r"(?=\[?[0-9])(?:[0-9.*?]|\[!?[0-9-]+\])+")

_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELD_NAME = re.compile(
    r"scheme|path|query|fragment|(?:username|password|hostname|port)(?:[1-9][0-9]*)?")
#: The parts of a template that a secret may stand in.
_TEMPLATE = re.compile(
    r"[^:/?#]*://(?:(?P<username>[^:/?#]*)(?::(?P<password>[^/?#]*))?@)?[^?]*"
    r"(?:\?(?P<parameters>.*))?", re.DOTALL)
_SERVER = re.compile(r"(?P<hostname>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?")


@dataclasses.dataclass(frozen=True, slots=True)
class UrlRules:
    """What the operator allows in URLs of cells.

    :ivar hosts: shell patterns of hosts; empty: any host, but no socket in the file system. Those
        of digits, dots and wildcards that begin with a digit are patterns of addresses.
    :ivar directories: the directories that SQLite databases and certificates may be in.
    """

    hosts: tuple[str, ...]
    directories: tuple[str, ...]


class UrlRefused(errors.ConfigurationError):
    """A part of a URL is not allowed.

    :ivar rule: the rule that it breaks, without what the URL has there.
    """

    def __init__(self, rule: str, part: str = "") -> None:
        super().__init__(f"{rule}: {part}" if part else rule)
        self.rule = rule


def fill(template: str, source: str) -> str:
    """Return a URL with its fields filled in from another URL.

    What the source logs in with may only stand where the filled URL logs in, and its parameters
    where that one has parameters: elsewhere they would be sent to servers, or told in errors.

    :param template: may have ``{scheme}``, ``{username}``, ``{password}``, ``{hostname}``,
        ``{port}``, ``{path}``, ``{query}`` and ``{fragment}``; ``{username1}`` and so on for
        the servers of a source that lists several. A URL with any other field is not a
        template, and is returned unchanged.
    :raises errors.ConfigurationError: the source has no value for a field, or a field stands
        where it may not; the message has no value.
    Source: nova, templated URLs in cell mappings.
    """
    fields = set(_FIELD.findall(template))
    if not fields or not all(map(_FIELD_NAME.fullmatch, fields)):
        return template
    values = _parse_fields(source)
    if not fields <= values.keys():
        # It names a server that the source does not list.
        return template
    _require_secrets_in_place(template, fields)
    missing = sorted(field for field in fields if values[field] is None)
    if missing:
        raise errors.ConfigurationError(
            f"its template asks for {{{missing[0]}}}, which [cells] template_connection (or "
            "[api_database] connection) does not have")
    return _FIELD.sub(lambda match: str(values[match[1]]), template)


def has_fields(url: str) -> bool:
    """Return whether a URL has fields of a template."""
    return _FIELD.search(url) is not None


def asks_for_login(url: str) -> bool:
    """Return whether a URL has fields for the username or the password of another one."""
    return any(_get_kind(field) in ("username", "password") for field in _FIELD.findall(url))


def _get_kind(field: str) -> str:
    return field.rstrip("0123456789")


def _require_secrets_in_place(template: str, fields: Collection[str]) -> None:
    parts = _TEMPLATE.fullmatch(template)
    username, password, parameters = parts.group(
        "username", "password", "parameters") if parts else (None, None, None)
    places = {
        "username": [username, password], "password": [password],
        # A part of a parameter would be the value of one that is allowed.
        "query": [part for part in re.split("[&#]", parameters or "")
                  if _FIELD.fullmatch(part)]}
    for field in sorted(fields):
        allowed = places.get(_get_kind(field))
        name = f"{{{field}}}"
        if allowed is not None and template.count(name) > sum(
                (place or "").count(name) for place in allowed):
            raise errors.ConfigurationError(f"its template may not have {name} there")


def _parse_fields(source: str) -> Mapping[str, str | None]:
    try:
        parts = urllib.parse.urlsplit(source)
        rest = f"{parts.path}{parts.query}{parts.fragment}"
        if parts.netloc and "@" not in parts.netloc and "@" in rest:
            # The password ends where it should not: other fields would have the rest of it.
            raise ValueError
    except ValueError:
        raise errors.ConfigurationError(
            "what fills its template has to have user and password percent-encoded (@ is %40)"
        ) from None
    servers = [_parse_server(server) for server in _split_servers(parts.netloc)]
    values: dict[str, str | None] = {
        "scheme": parts.scheme, "path": parts.path.lstrip("/"), "query": parts.query,
        "fragment": parts.fragment, **servers[0]}
    if len(servers) > 1:
        for number, server in enumerate(servers, 1):
            values |= {f"{field}{number}": value for field, value in server.items()}
    return values


def _split_servers(netloc: str) -> list[str]:
    servers = netloc.split(",")
    have_login = ["@" in server for server in servers]
    # The first comma may be in the password of a single server.
    return [netloc] if any(have_login) and not have_login[0] else servers


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
    :raises UrlRefused: a part of the URL is not allowed; the message names it.
    """
    backend = url.get_backend_name()
    driver = url.drivername.partition("+")[2]
    if driver not in _DRIVERS[backend]:
        raise UrlRefused("its driver is not one that cells may have", driver)
    if backend == "sqlite":
        _require_file(url.database or "", "an SQLite database", rules)
    elif url.port is not None and not 0 < url.port < 65536:
        raise UrlRefused("there is no such port", str(url.port))
    for host in _list_hosts(url):
        _require_host(host, rules)
    for name, values in url.normalized_query.items():
        if name in _FILES[backend]:
            for path in values:
                _require_file(path, name, rules)
        elif name not in _HARMLESS[backend] | _PLACES[backend]:
            allowed = sorted(_HARMLESS[backend] | _FILES[backend] | _PLACES[backend])
            raise UrlRefused(
                "it has a parameter other than those that cells may have "
                f"({', '.join(allowed) or 'none'})", name)


def require_same_hosts(url: sa.URL, source: sa.URL) -> None:
    """Refuse a URL that connects to other hosts than the one that it got its login from.

    :raises UrlRefused: the URL has another host, or one of both has none that makes sense.
    """
    if not {*_list_hosts(url)} <= {*_list_hosts(source)}:
        raise UrlRefused(
            "its template asks for a login on a host that [cells] database_hosts does not name")


def _list_hosts(url: sa.URL) -> Iterator[str]:
    """Yield the hosts of a URL, and the paths of its sockets.

    :raises UrlRefused: its driver could not be given them.
    """
    backend = url.get_backend_name()
    if backend == "sqlite":
        return
    # A host among the parameters is part of what the driver gets as its host.
    places = [place for name in sorted(_PLACES[backend] - {"host"})
              for value in url.normalized_query.get(name, ()) for place in value.split(",")]
    driver_host = _get_driver_host(url)
    hosts = driver_host.split(",") if driver_host or not places else []
    for host in (*hosts, *places):
        yield _resolve_default(url, host)


def _get_driver_host(url: sa.URL) -> str:
    """Return what the driver gets as its host; PostgreSQL's may be several, with commas."""
    if url.get_backend_name() != "postgresql":
        return url.host or ""
    try:
        # Whether a colon begins a port or is part of an address, SQLAlchemy alone decides.
        _, arguments = _PSYCOPG.create_connect_args(url)
    except (sa.exc.ArgumentError, ValueError):
        raise UrlRefused("its hosts and ports make no sense") from None
    return str(arguments.get("host", ""))


def _resolve_default(url: sa.URL, host: str) -> str:
    """Return what the driver connects to for a host that may be empty."""
    if url.get_backend_name() == "postgresql":
        return host or _DEFAULT_SOCKET
    if host.lower() in ("", "localhost") and url.drivername.endswith("+mysqldb"):
        return _DEFAULT_SOCKET
    return host or "localhost"


def _require_host(host: str, rules: UrlRules) -> None:
    if rules.hosts:
        if any(_matches(host.lower(), pattern.lower()) for pattern in rules.hosts):
            return
    elif not host.startswith(_SOCKET_STARTS):
        return
    raise UrlRefused("[cells] database_hosts does not name the host", host)


def _matches(host: str, pattern: str) -> bool:
    # 10.0.* is a network; 10.0.example.com is somebody's host.
    if _ADDRESS_PATTERN.fullmatch(pattern) and not _ADDRESS.fullmatch(host):
        return False
    return fnmatch.fnmatchcase(host, pattern)


def _require_file(path: str, what: str, rules: UrlRules) -> None:
    try:
        real = os.path.realpath(path)
        if any(os.path.commonpath([real, os.path.realpath(directory)])
               == os.path.realpath(directory) for directory in rules.directories):
            return
    except ValueError:
        # The path has a character that no path may have.
        pass
    raise UrlRefused(f"{what} has to be in one of [cells] directories")
