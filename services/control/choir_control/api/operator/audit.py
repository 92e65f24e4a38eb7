"""`/v1/audit`: the anchors of the logs, and the keys that sign them."""

from fastapi import APIRouter

from choir_common.eventlog.signature import AuditKeyring
from choir_common.http.routers import ServiceRouter
from choir_common.wire.audit import AnchorList, AnchorView
from choir_control.log.audit.anchor import CheckedAnchor
from choir_control.log.audit.anchor_store import AnchorStore
from choir_control.log.audit.key_file import AuditKeyFile
from choir_control.log.audit.verifier import LogVerifier


def audit_routes(
    *, verifier: LogVerifier, store: AnchorStore, keys: AuditKeyFile, keyring: AuditKeyring
) -> APIRouter:
    """Return the router of the audit log."""
    router = ServiceRouter(prefix="/audit", tags=["audit"])

    async def read_anchors() -> AnchorList:
        checked = await verifier.check_anchors()
        existing = frozenset(await store.list_sessions())
        views = tuple(_view(anchor, existing) for anchor in checked.values())
        return AnchorList(keys=keyring.key_ids, anchors=views)

    @router.get("/anchors")
    async def list_anchors() -> AnchorList:
        """Recompute the roots of all anchors and check their signatures."""
        return await read_anchors()

    @router.post("/rotate")
    async def rotate_key() -> AnchorList:
        """Make a new key, which signs from now on; the older ones still check."""
        await keys.rotate()
        return await read_anchors()

    return router


def _view(checked: CheckedAnchor, existing: frozenset[str]) -> AnchorView:
    anchor = checked.anchor
    return AnchorView(
        number=anchor.number,
        at=anchor.at,
        root=anchor.root,
        logs=len(anchor.heads),
        deleted_logs=sum(head.session_id not in existing for head in anchor.heads),
        signed=checked.is_signed,
        fault=checked.fault,
    )
