"""Fake push service (RFC 8030) that is as strict as real ones, and a browser's side of it.

It serves HTTPS on loopback. A request without a valid VAPID token (RFC 8292) or with a body that the browser
could not decrypt (RFC 8291) is refused, and its reason recorded.
"""

import base64
import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MAX_BODY = 4096
MAX_TOKEN_S = 24 * 3600


def encode(content: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class FakeSubscription:
    """The keys of one browser; only the browser can decrypt."""

    endpoint: str
    server_key: str
    """The application server's public key, which a subscription is bound to."""
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    auth: bytes = field(default_factory=lambda: os.urandom(16))
    received: list[Any] = field(default_factory=list)
    """The decrypted messages."""
    sizes: set[int] = field(default_factory=set)
    answer: int = 201

    @property
    def point(self) -> bytes:
        """Return the public key as an uncompressed point."""
        return self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def body(self) -> dict[str, str]:
        """Return the JSON with which the browser subscribes."""
        return {"endpoint": self.endpoint, "p256dh": encode(self.point), "auth": encode(self.auth)}

    def decrypt(self, body: bytes) -> bytes:
        """Return the text of a message of one record, as a browser does."""
        salt, size, length = body[:16], int.from_bytes(body[16:20]), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert length == 65 and len(record) <= size <= MAX_BODY, "the header is wrong"
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        info = b"WebPush: info\0" + self.point + sender
        secret = _derive(self.auth, self.key.exchange(ec.ECDH(), public), info, 32)
        key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)
        plain = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert plain[-1:] == b"\x02", "the record is not marked as the last"
        return plain[:-1]


@dataclass
class FakePushService:
    """The subscriptions by the path of their address, and what was refused."""

    port: int = 0
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @property
    def origin(self) -> str:
        """Return the origin of all addresses."""
        return f"https://localhost:{self.port}"

    def subscribe(self, server_key: str) -> FakeSubscription:
        """Return a new subscription of a browser."""
        path = f"/push/{encode(os.urandom(12))}"
        self.subscriptions[path] = FakeSubscription(self.origin + path, server_key)
        return self.subscriptions[path]

    def take(self, path: str, headers: Any, body: bytes) -> int:
        """Return the status for a request."""
        subscription = self.subscriptions.get(path)
        if subscription is None:
            return 404
        self.hosts.add(headers["Host"])
        try:
            self._check_token(headers["Authorization"], subscription.server_key)
            assert headers["Content-Encoding"] == "aes128gcm", "the encoding is wrong"
            assert headers["TTL"].isdigit(), "TTL is missing"
            assert headers["Urgency"] in ("very-low", "low", "normal", "high"), "Urgency is wrong"
            assert len(decode(headers["Topic"])) <= 24, "Topic is too long"
            assert len(body) <= MAX_BODY, "the body is too large"
            text = subscription.decrypt(body)
        except Exception as error:  # every fault of a request refuses it
            self.refused.append(repr(error))
            return 400
        if subscription.answer == 201:
            subscription.received.append(json.loads(text))
            subscription.sizes.add(len(body))
        return subscription.answer

    def _check_token(self, header: str, server_key: str) -> None:
        scheme, _, rest = header.partition(" ")
        fields = dict(it.strip().split("=", 1) for it in rest.split(","))
        assert scheme == "vapid" and fields["k"] == server_key, "not the key of the subscription"
        unsigned, _, signature = fields["t"].rpartition(".")
        head, claims = (json.loads(decode(part)) for part in unsigned.split("."))
        raw = decode(signature)
        assert head == {"typ": "JWT", "alg": "ES256"} and len(raw) == 64, "not ES256"
        der = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(fields["k"]))
        try:
            key.verify(der, unsigned.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise AssertionError("the signature is wrong") from None
        assert claims["aud"] == self.origin, "aud is not this service"
        assert 0 < claims["exp"] - time.time() <= MAX_TOKEN_S, "exp is out of range"
        assert claims["sub"].startswith(("mailto:", "https:")), "sub is no contact"


@contextlib.contextmanager
def run_push_service(tls: ssl.SSLContext) -> Iterator[FakePushService]:
    """Run the service in a thread."""
    service = FakePushService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(service.take(self.path, self.headers, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, name="push service")
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


def _derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
