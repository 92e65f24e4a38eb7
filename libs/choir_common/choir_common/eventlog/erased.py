"""Check the hashes that are left of an erased log. Used by control and by the check of backups."""

from choir_common.eventlog.chain import Head

HASH_BYTES = 32


def count_hashes(hashes: bytes) -> int:
    """Return of how many events there are hashes."""
    return len(hashes) // HASH_BYTES


def find_fault(hashes: bytes, head: Head) -> str:
    """Say why the hashes are not those of a log that ends at `head`; nothing if they fit."""
    if len(hashes) != head.rev * HASH_BYTES:
        return f"{count_hashes(hashes)} hashes are kept of its {head.rev} events"
    if hashes[-HASH_BYTES:].hex() != head.hash:
        return "the last hash that is kept is not what the session's head says"
    return ""
