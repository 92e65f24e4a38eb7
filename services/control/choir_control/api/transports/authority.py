"""Self-made certificates: one authority per home, and a new server certificate at each start.

Imported by `tls` only when choird makes its own certificate: the library takes 0.1 s and 12 MB to
load.
"""

import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_control.api.transports.own_files import CertificateFiles, write_private

AUTHORITY_DAYS = 3650
# A server certificate is renewed at each start. Some clients refuse a validity above 825 days.
SERVER_DAYS = 825
# Clients with a slightly slow clock must accept a certificate that was just made.
CLOCK_TOLERANCE = datetime.timedelta(hours=1)


def issue_certificate(
    files: CertificateFiles, names: Sequence[str], now: datetime.datetime
) -> None:
    """Write a new server certificate for `names`, signed by this home's authority.

    Raises StartupError if the authority's files are damaged or cannot be written.
    """
    if not (files.authority.exists() and files.authority_key.exists()):
        _make_authority(files, now)
    try:
        authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        signer = serialization.load_pem_private_key(files.authority_key.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise StartupError(
            _(
                "The certificate authority in {directory} cannot be read: {error}. Remove that directory "
                "to create a new one; its clients must then trust the new certificate."
            ).format(directory=files.directory, error=error)
        ) from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise StartupError(
            _("{authority_key} is not the key that choird made; remove it.").format(
                authority_key=files.authority_key
            )
        )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _started("choird", authority.subject, key.public_key(), now, SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    write_private(files.key, _pem_of(key))
    write_private(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    # It is public. Prometheus reads it as another user in its container, which mounts this file alone.
    files.authority.chmod(0o644)


def _make_authority(files: CertificateFiles, now: datetime.datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("Choir (this home)")
    certificate = (
        _started("Choir (this home)", name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    # The key first, because a certificate without its key would be taken for a complete authority.
    write_private(files.authority_key, _pem_of(key))
    write_private(files.authority, certificate.public_bytes(serialization.Encoding.PEM))


def _started(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
