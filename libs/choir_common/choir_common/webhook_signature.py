"""Signatures of webhook requests, as the Standard Webhooks specification defines them.

Used by the gateway's webhook channel and by control's hooks. The signature is the HMAC-SHA256 of
`id.timestamp.body`, in base64, after the version `v1,`. A header may contain several signatures, separated by
spaces, while a key is being replaced.
Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta

from choir_common.errors import Unauthorized
from choir_common.i18n import _

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
VERSION = "v1,"
KEY_PREFIX = "whsec_"
TOLERANCE = timedelta(minutes=5)
"""Older requests could be repeated by somebody who recorded them; the clocks of both sides may differ."""
MAX_ID_CHARS = 200
MAX_DIGITS = 12
"""Digits of a timestamp."""


class WebhookSigner:
    """Signs and verifies requests with one secret."""

    def __init__(self, secret: str) -> None:
        """`secret` is any text, or `whsec_` and the key in base64. Raises ValueError if that is invalid."""
        if secret.startswith(KEY_PREFIX):
            try:
                self._key = base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
            except binascii.Error as error:
                raise ValueError(f"After {KEY_PREFIX}, its secret must be base64.") from error
        else:
            self._key = secret.encode()

    def sign(self, message_id: str, body: bytes, now: datetime) -> dict[str, str]:
        """Return the three headers of a request."""
        timestamp = str(int(now.timestamp()))
        return {
            ID: message_id,
            TIMESTAMP: timestamp,
            SIGNATURE: VERSION + self._digest(message_id, timestamp, body),
        }

    def verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
        """Return the id of a request.

        Raises Unauthorized if a header is missing, the signature does not match, or the timestamp is more
        than `TOLERANCE` away.
        """
        message_id, timestamp = headers.get(ID, ""), headers.get(TIMESTAMP, "")
        # before all checks: the time of a response must not tell which of them failed
        expected = (VERSION + self._digest(message_id, timestamp, body)).encode()
        if not 0 < len(message_id) <= MAX_ID_CHARS or not message_id.isprintable():
            raise Unauthorized(
                _("The header {id} must have 1 to {max_id_chars} characters.").format(
                    id=ID, max_id_chars=MAX_ID_CHARS
                )
            )
        signatures = headers.get(SIGNATURE, "").encode().split(b" ")
        if not any(hmac.compare_digest(expected, signature) for signature in signatures):
            raise Unauthorized(
                _("The header {signature} does not match the request.").format(signature=SIGNATURE)
            )
        # after the signature: only the owner of the key learns how the clocks differ
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_DIGITS):
            raise Unauthorized(
                _("The header {timestamp} must be in seconds since 1970.").format(
                    timestamp=TIMESTAMP
                )
            )
        if abs(int(timestamp) - now.timestamp()) > TOLERANCE.total_seconds():
            raise Unauthorized(
                _(
                    "The header {timestamp} differs from this machine's clock by more than {tolerance:.0f} "
                    "s; here it is {now}."
                ).format(
                    timestamp=TIMESTAMP,
                    tolerance=TOLERANCE.total_seconds(),
                    now=int(now.timestamp()),
                )
            )
        return message_id

    def _digest(self, message_id: str, timestamp: str, body: bytes) -> str:
        content = b".".join((message_id.encode(), timestamp.encode(), body))
        return base64.b64encode(hmac.digest(self._key, content, hashlib.sha256)).decode()
