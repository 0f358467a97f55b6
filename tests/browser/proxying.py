"""HAProxy that ends TLS, and has the service below a path."""

from __future__ import annotations

import base64
import datetime
import hashlib
import pathlib
import socket

import fixtures
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests import server_programs

_CONFIGURATION = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend tls
    bind 127.0.0.1:{port} ssl crt {certificate}
    http-request deny unless {{ path_beg {path} }}
    http-request set-header X-Forwarded-Proto https
    http-request set-header X-Forwarded-Prefix {path}
    http-request replace-path {path}/?(.*) /\\1
    default_backend service
backend service
    server service {address}
"""
_KEY = ec.generate_private_key(ec.SECP256R1())
#: Arguments of a Chromium that believes certificates of the proxy's key. (Where a page is told to
#: ignore errors, Chromium begins each connection twice, and now and then gives up:
#: ERR_TOO_MANY_RETRIES.)
TRUST = ("--ignore-certificate-errors-spki-list=" + base64.b64encode(hashlib.sha256(
    _KEY.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
).digest()).decode(),)
#: Of the service behind it.
OPTIONS = {("oslo_middleware", "enable_proxy_headers_parsing"): True}


class TLSProxy(fixtures.Fixture):
    """A proxy before a server.

    :ivar origin: scheme, host and port of the proxy; nobody has signed its certificate, which a
        browser that is started with ``TRUST`` believes all the same.
    """

    origin: str

    def __init__(self, address: str, path: str) -> None:
        """Prepare it.

        :param address: host and port of the server.
        :param path: below which the proxy has it.
        """
        self._address = address
        self._path = path

    def _setUp(self) -> None:
        haproxy = server_programs.find("haproxy", "haproxy", "/usr/sbin")
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        certificate = folder / "proxy.pem"
        certificate.write_bytes(_make_certificate())
        port = server_programs.find_free_port()
        configuration = folder / "haproxy.cfg"
        configuration.write_text(_CONFIGURATION.format(
            port=port, certificate=certificate, address=self._address, path=self._path))
        program = server_programs.Program(
            [haproxy, "-db", "-f", str(configuration)], None, lambda: _listens(port),
            folder / "log")
        self.addCleanup(program.stop)
        program.start()
        self.origin = f"https://127.0.0.1:{port}"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _make_certificate() -> bytes:
    """Return the key and a certificate for it, in PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name)
        .public_key(_KEY.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(now - day).not_valid_after(now + day).sign(_KEY, hashes.SHA256()))
    return _KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()) + certificate.public_bytes(serialization.Encoding.PEM)
