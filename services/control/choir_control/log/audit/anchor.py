"""Anchors: the heads of all logs that changed since the anchor before, under one hash that people receive.

Each root covers the root before it. So the newest root that a person has received proves the heads of all
logs up to then.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from choir_common.eventlog.signature import AuditKeyring, SignatureState
from choir_common.i18n import _

FIRST_ROOT = "0" * 64


@dataclass(frozen=True, slots=True)
class AnchoredHead:
    """The head of one session's log when an anchor was made."""

    session_id: str
    rev: int
    hash: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """One anchor as stored."""

    number: int
    at: datetime
    root: str
    signature: bytes
    heads: tuple[AnchoredHead, ...]


@dataclass(frozen=True, slots=True)
class CheckedAnchor:
    """An anchor, whether its signature could be checked, and what is wrong with it."""

    anchor: Anchor
    is_signed: bool
    """False if this machine does not have the key."""
    fault: str = ""


def compute_root(
    previous_root: str, number: int, at: datetime, heads: Iterable[AnchoredHead]
) -> str:
    """Return the root: SHA-256 over the previous root, the number, the time and the heads by session."""
    lines = [previous_root, str(number), at.astimezone(UTC).isoformat()]
    ordered = sorted(heads, key=_by_session)
    lines += [f"{head.session_id} {head.rev} {head.hash}" for head in ordered]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def check_anchors(anchors: Sequence[Anchor], keyring: AuditKeyring) -> Mapping[int, CheckedAnchor]:
    """Recompute the roots of all anchors, oldest first, and check their signatures."""
    checked: dict[int, CheckedAnchor] = {}
    previous_root = FIRST_ROOT
    for expected_number, anchor in enumerate(anchors, start=1):
        state = keyring.check(anchor.signature, "anchor", anchor.root)
        root = compute_root(previous_root, anchor.number, anchor.at, anchor.heads)
        fault = ""
        if anchor.number != expected_number:
            fault = _("anchor {expected_number} is missing").format(expected_number=expected_number)
        elif root != anchor.root:
            fault = _("its root does not match the heads in it and the root before it")
        elif state in (SignatureState.WRONG, SignatureState.MISSING):
            fault = _("it is not signed by a key of this installation")
        checked[anchor.number] = CheckedAnchor(anchor, state is SignatureState.VALID, fault)
        previous_root = anchor.root
    return checked


def _by_session(head: AnchoredHead) -> str:
    return head.session_id
