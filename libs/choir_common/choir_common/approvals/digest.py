"""Digest that identifies the exact content of an approval request. Pure.

Control computes it when it stores a request and again before it applies one. choirctl computes it too, and
shows nothing that the digest does not cover.
"""

import hashlib

from choir_common.eventlog.chain import canonical_json
from choir_common.wire.model import JsonObject


def request_digest(request_type: str, payload: JsonObject, basis: JsonObject | None = None) -> str:
    """Return the SHA-256 of the canonical JSON of a request and of the basis it was shown with.

    Any change of either changes the digest.
    """
    content: JsonObject = {"request_type": request_type, "payload": payload}
    if basis:
        content["basis"] = basis
    return hashlib.sha256(canonical_json(content)).hexdigest()
