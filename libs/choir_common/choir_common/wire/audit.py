"""Anchors of the audit log, as operators see them."""

from choir_common.wire.model import AwareTime, WireModel


class AnchorView(WireModel):
    """The hash over the heads of the logs that changed since the anchor before."""

    number: int
    at: AwareTime
    root: str
    logs: int
    """Logs in it."""
    deleted_logs: int
    """Logs in it whose session was deleted since, such as by `retention.sessions`."""
    signed: bool
    """False if this installation does not have the key, so that the signature cannot be checked."""
    fault: str = ""
    """What is wrong with it; empty if nothing is."""


class AnchorList(WireModel):
    """All anchors, oldest first, and the keys of this installation."""

    keys: tuple[str, ...]
    """Ids of the keys, oldest first; the last one signs."""
    anchors: tuple[AnchorView, ...]
