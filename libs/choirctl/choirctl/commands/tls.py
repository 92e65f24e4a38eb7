"""Command `choirctl tls`: the CA certificate of choird's HTTPS endpoint, and its fingerprint."""

import hashlib
import ssl

import typer

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import print_json, stdout_console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(tls)


def tls(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Show the CA certificate of this Choir's HTTPS endpoint.

    Prints the path of the CA certificate and its SHA-256 fingerprint.
    Exits 3 if this Choir created no certificate: it uses plain HTTP, or a certificate of the operator.
    """
    file = find_target(ctx, home).ca_file
    try:
        fingerprint = fingerprint_of(file.read_text("ascii"))
    except FileNotFoundError as error:
        raise NotFound(
            _(
                "There is no {file}: this Choir made no certificate. It makes one when it starts "
                "with CHOIR_TLS=on, or listens for other machines."
            ).format(file=file)
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            _("{file} cannot be read: {error}.").format(file=file, error=error)
        ) from error
    if as_json:
        print_json({"authority": str(file), "sha256": fingerprint})
        return
    stdout_console().print(
        _("Authority  {file}\nSHA-256    {fingerprint}").format(file=file, fingerprint=fingerprint),
        markup=False,
        highlight=False,
    )


def fingerprint_of(pem: str) -> str:
    """Return the SHA-256 of a certificate as `openssl x509 -fingerprint` shows it."""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
