"""Name exactly what is asked: pure. Called by `store`, and again by whoever carries a decision out."""

import hashlib

from choir_common.eventlog.chain import canonical
from choir_common.wire.json import JsonObject


def digest_of(request_type: str, payload: JsonObject) -> str:
    """Return the SHA-256 of the canonical JSON of a request; any change of it changes this."""
    asked: JsonObject = {"request_type": request_type, "payload": payload}
    return hashlib.sha256(canonical(asked)).hexdigest()
