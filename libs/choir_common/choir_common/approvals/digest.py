"""Name exactly what is asked: pure.

Called by control, when it stores a request and again when it carries one out, and by choirctl, which does not
show what its digest does not name.
"""

import hashlib

from choir_common.eventlog.chain import canonical
from choir_common.wire.json import JsonObject


def digest_of(request_type: str, payload: JsonObject, basis: JsonObject | None = None) -> str:
    """Return the SHA-256 of the canonical JSON of a request and of what it was shown with.

    Any change of either changes this.
    """
    asked: JsonObject = {"request_type": request_type, "payload": payload}
    if basis:
        asked["basis"] = basis
    return hashlib.sha256(canonical(asked)).hexdigest()
