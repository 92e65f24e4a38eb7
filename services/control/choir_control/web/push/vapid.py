"""Key of this Choir at push services, and the header that proves it (VAPID, RFC 8292). Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from choir_control.web.push.encryption import CURVE, encode_base64url, encode_point

TOKEN_LIFETIME = timedelta(hours=12)
"""RFC 8292 allows 24 hours; half of it leaves room for clocks that are wrong."""
SCALAR_BYTES = 32


@dataclass(frozen=True, slots=True)
class VapidKeyPair:
    """Private key by which push services recognize this Choir; a subscription accepts no other."""

    key: ec.EllipticCurvePrivateKey

    @classmethod
    def generate(cls) -> "VapidKeyPair":
        """Return a new key."""
        return cls(ec.generate_private_key(CURVE))

    @classmethod
    def from_bytes(cls, scalar: bytes) -> "VapidKeyPair":
        """Return the key with this private number."""
        return cls(ec.derive_private_key(int.from_bytes(scalar), CURVE))

    def to_bytes(self) -> bytes:
        """Return the private number, 32 bytes."""
        return self.key.private_numbers().private_value.to_bytes(SCALAR_BYTES)

    @property
    def public(self) -> str:
        """Return the public key in base64url, as `PushManager.subscribe` takes it."""
        return encode_base64url(encode_point(self.key.public_key()))

    def authorize(self, endpoint: str, subject: str, now: datetime) -> str:
        """Return the header Authorization of a request to `endpoint`.

        `subject` is the address at which the push service may reach the operator.
        """
        parts = urlsplit(endpoint)
        claims = {
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int((now + TOKEN_LIFETIME).timestamp()),
            "sub": subject,
        }
        unsigned = f"{_encode_json({'typ': 'JWT', 'alg': 'ES256'})}.{_encode_json(claims)}"
        signature = self.key.sign(unsigned.encode(), ec.ECDSA(hashes.SHA256()))
        # a JWT has the two numbers side by side (RFC 7518), and not in DER
        raw = b"".join(number.to_bytes(SCALAR_BYTES) for number in decode_dss_signature(signature))
        return f"vapid t={unsigned}.{encode_base64url(raw)}, k={self.public}"


def _encode_json(value: Mapping[str, object]) -> str:
    return encode_base64url(json.dumps(value, separators=(",", ":")).encode())
