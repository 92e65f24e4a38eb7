"""The routes of the web page's files, `/web/`. Users reach them through control's endpoint."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from choir_common.http.routers import ServiceRouter
from choir_gateway.web.assets import Asset, WebAssets

IMMUTABLE = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
# Scripts and styles of this page only, no HTML from strings (Trusted Types), no other server, no frame.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        # one policy, which allows the address of the service worker only: app/push.js
        "trusted-types service-worker",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=(), payment=(), usb=()",
}


def make_web_router(assets: WebAssets) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/web", tags=["web"])

    @router.get("/")
    async def read_page(request: Request) -> Response:
        """Return the web page."""
        page = await asyncio.to_thread(lambda: assets.page)
        return await _respond(request, page, ASK_AGAIN)

    @router.get("/service-worker.js")
    async def read_service_worker(request: Request) -> Response:
        """Return the script that shows notifications; its address is fixed, and its folder its scope."""
        worker = await asyncio.to_thread(lambda: assets.service_worker)
        return await _respond(request, worker, ASK_AGAIN)

    @router.get("/assets/{digest}/{path:path}")
    async def read_asset(digest: str, path: str, request: Request) -> Response:
        """Return a file of the web page; browsers keep it under the digest of all files."""
        asset = await asyncio.to_thread(assets.find, path)
        current = digest == assets.digest
        return await _respond(request, asset, IMMUTABLE if current else ASK_AGAIN)

    return router


async def _respond(request: Request, asset: Asset, caching: str) -> Response:
    headers = {
        **SECURITY_HEADERS,
        "Cache-Control": caching,
        "ETag": asset.tag,
        "Vary": "Accept-Encoding",
    }
    tags = request.headers.get("if-none-match", "").split(",")
    if asset.tag in (tag.strip().removeprefix("W/") for tag in tags):
        return Response(status_code=304, headers=headers)
    # in a thread, once for each file: it takes some milliseconds
    compressed = await asyncio.to_thread(lambda: asset.compressed)
    if compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, headers=headers, media_type=asset.media_type)
    return Response(asset.content, headers=headers, media_type=asset.media_type)
