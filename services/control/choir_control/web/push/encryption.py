"""Encryption of a push message for one browser: RFC 8291, with the content coding `aes128gcm` (RFC 8188).

Pure, except for the random salt and key that `encrypt_message` makes unless they are given.
"""

import base64
import binascii
import os
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from choir_common.errors import InvalidRequest

CURVE = ec.SECP256R1()
POINT_BYTES = 65
AUTH_BYTES = 16
SALT_BYTES = 16
RECORD_BYTES = 4096
"""Size of a record; push services accept bodies up to this."""
LAST_RECORD = b"\x02"


@dataclass(frozen=True, slots=True)
class SubscriptionSecrets:
    """The keys that a browser made for one subscription."""

    p256dh: bytes
    """Public key of the browser: an uncompressed point of P-256."""
    auth: bytes
    """Secret that the browser shares with its application server only, 16 bytes."""

    @classmethod
    def parse(cls, p256dh: str, auth: str) -> "SubscriptionSecrets":
        """Return the keys from base64url; raises InvalidRequest if they are unusable."""
        keys = cls(decode_base64url(p256dh, "p256dh"), decode_base64url(auth, "auth"))
        if len(keys.auth) != AUTH_BYTES:
            raise InvalidRequest(f"auth: must have {AUTH_BYTES} bytes.")
        try:
            # also refuses points that are not on the curve
            ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh)
        except ValueError as error:
            raise InvalidRequest("p256dh: is not a public key of P-256.") from error
        if len(keys.p256dh) != POINT_BYTES:
            raise InvalidRequest("p256dh: must be an uncompressed point.")
        return keys


def encrypt_message(
    text: bytes,
    keys: SubscriptionSecrets,
    *,
    pad_to: int = 0,
    salt: bytes | None = None,
    own_key: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """Return the body of a push request; `pad_to` bytes hide how long a shorter text is.

    `salt` and `own_key` are for the examples of the RFC only: each message needs new ones.
    """
    salt = salt or os.urandom(SALT_BYTES)
    own_key = own_key or ec.generate_private_key(CURVE)
    own_point = encode_point(own_key.public_key())
    browser_key = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh)
    shared = own_key.exchange(ec.ECDH(), browser_key)
    info = b"WebPush: info\0" + keys.p256dh + own_point
    secret = _derive(keys.auth, shared, info, 32)
    content_key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)
    plain = text + LAST_RECORD + bytes(max(0, pad_to - len(text)))
    header = salt + RECORD_BYTES.to_bytes(4) + bytes([len(own_point)]) + own_point
    return header + AESGCM(content_key).encrypt(nonce, plain, None)


def encode_point(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key as an uncompressed point."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def encode_base64url(content: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode_base64url(text: str, field: str) -> bytes:
    """Return the bytes of base64url with or without padding; raises InvalidRequest naming `field`."""
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{field}: is not base64url.") from error


def _derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
