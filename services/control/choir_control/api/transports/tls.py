"""TLS settings of the TCP endpoint: whether it uses TLS, and with which certificate.

The operator's certificate is used if there is one; otherwise choird makes its own (`authority`).
"""

import datetime
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from choir_common import addresses
from choir_common.addresses import WILDCARD_HOSTS
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_control.api.transports.own_files import CertificateFiles
from choir_control.settings import ControlSettings


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS context of the endpoint, and the certificates that its clients trust."""

    context: ssl.SSLContext
    trusted_pem: str
    """PEM: the certificates that a client pins."""


def uses_tls(settings: ControlSettings) -> bool:
    """Return True if the endpoint uses TLS: configured, or required as other machines can reach it."""
    return addresses.uses_tls(settings.tls, settings.tls_cert, settings.http_host)


def load_server_tls(settings: ControlSettings, now: datetime.datetime) -> ServerTls | None:
    """Return the endpoint's TLS settings, or None for plain HTTP; writes files below the home.

    Raises StartupError for a certificate or key that is missing or does not fit.
    """
    if not uses_tls(settings):
        return None
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise StartupError(_("CHOIR_TLS_CERT and CHOIR_TLS_KEY belong together: set both or none."))
    if settings.tls_cert:
        certificate, key = Path(settings.tls_cert), Path(settings.tls_key)
        return ServerTls(_context(certificate, key), _read(certificate))
    files = CertificateFiles(settings.tls_dir)
    # Most homes use sockets only and need no certificate.
    from choir_control.api.transports.authority import (  # noqa: PLC0415 - see above
        issue_certificate,
    )

    with files.locked():  # a standby of this home may start at the same time
        issue_certificate(files, certificate_names(settings), now)
        return ServerTls(_context(files.certificate, files.key), _read(files.authority))


def certificate_names(settings: ControlSettings) -> list[str]:
    """Return the host names and addresses that the certificate must contain."""
    names = {"localhost", "127.0.0.1", "::1", "control", socket.gethostname()}
    names.update(name.strip() for name in settings.tls_names.split(","))
    if settings.http_host not in WILDCARD_HOSTS:
        names.add(settings.http_host)
    names.add(urlsplit(settings.control_endpoint).hostname or "")
    return sorted(name for name in names if name and name.isascii())


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An empty password: a key with a password then fails at once instead of prompting on the
        # terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # also catches ssl.SSLError
        why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise StartupError(
            _(
                "The certificate {certificate} with the key {key} cannot be used: {why}. Both are PEM "
                "files, the key without a password (CHOIR_TLS_CERT, CHOIR_TLS_KEY)."
            ).format(certificate=certificate, key=key, why=why)
        ) from error
    return context


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(
            _("Cannot read the certificate {path}: {error}.").format(path=path, error=error)
        ) from error
