"""Authentication of Meta's requests: signatures of updates, and the verification of the webhook's address.

Source: https://developers.facebook.com/docs/graph-api/webhooks/getting-started
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from choir_common.errors import InvalidRequest, Unauthorized

SIGNATURE = "x-hub-signature-256"
PREFIX = "sha256="
CHALLENGE = re.compile(r"[A-Za-z0-9_.-]{1,200}")
"""Meta sends a number. Other characters are refused, since the response repeats them."""


class MetaSignatures:
    """Verifies the requests of one app."""

    def __init__(self, *, app_secret: str, verify_token: str) -> None:
        self._key = app_secret.encode()
        self._verify_token = verify_token.encode()

    def verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Check the signature of a body as it arrived. Raises Unauthorized."""
        expected = PREFIX + hmac.digest(self._key, body, hashlib.sha256).hex()
        if not hmac.compare_digest(headers.get(SIGNATURE, "").encode(), expected.encode()):
            raise Unauthorized("The header X-Hub-Signature-256 does not match the body.")

    def answer_challenge(self, query: Mapping[str, str]) -> str:
        """Return the challenge of a verification. Raises Unauthorized, InvalidRequest."""
        token = query.get("hub.verify_token", "").encode()
        if not hmac.compare_digest(token, self._verify_token):
            raise Unauthorized("hub.verify_token does not match.")
        challenge = query.get("hub.challenge", "")
        if query.get("hub.mode") != "subscribe" or not CHALLENGE.fullmatch(challenge):
            raise InvalidRequest("A verification needs hub.mode=subscribe and hub.challenge.")
        return challenge
