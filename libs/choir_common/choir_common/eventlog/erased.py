"""Verification of the hashes that remain of an erased log. Used by control and by the backup check."""

from choir_common.eventlog.chain import Head

HASH_BYTES = 32


def count_hashes(hashes: bytes) -> int:
    """Return the number of events that have a hash in `hashes`."""
    return len(hashes) // HASH_BYTES


def find_fault(hashes: bytes, head: Head) -> str:
    """Return why the hashes do not belong to a log that ends at `head`; empty if they do."""
    if len(hashes) != head.rev * HASH_BYTES:
        return f"{count_hashes(hashes)} hashes are kept of its {head.rev} events"
    if hashes[-HASH_BYTES:].hex() != head.hash:
        return "the last hash that is kept is not what the session's head says"
    return ""
