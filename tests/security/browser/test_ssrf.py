"""Row S8: nothing a page or a URL says makes the browser touch an address that is not public."""

import asyncio
import base64
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from choir_browser.contexts.rooms import Rooms
from choir_browser.guard.allowlist import Allowlist, parse_allowlist
from choir_browser.guard.proxy import EgressProxy
from choir_browser.guard.resolve import Dialler
from choir_common.errors import BadInput, ChoirError, Forbidden
from choir_common.wire.browsing import BrowsedPage, BrowseRequest, OpenPage
from tests.security.browser.conftest import FAR_AWAY, FlippingResolver
from tests.security.browser.web import Answer, Site, Trap, html, redirect

MakeRooms = Callable[[str], AbstractAsyncContextManager[Rooms]]

HOSTS = (
    "127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433",
    "017700000001", "0", "0.0.0.0", "127.127.127.127", "localhost", "LOCALHOST", "localhost.",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00:ec2::254]",
    "169.254.169.254", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe", "100.100.100.200",
    "168.63.129.16", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1",
    "192.0.0.1", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "[ff02::1]",
    "[fec0::1]", "trap.test", "mixed.test", "mapped.test", "rebind.test",
)  # fmt: skip

SCHEMES = (
    "file:///etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd", "ftp://127.0.0.1/",
    "data:text/html,<h1>x", "javascript:alert(1)", "about:blank", "chrome://version",
    "view-source:file:///etc/passwd", "blob:http://127.0.0.1/x", "gopher://127.0.0.1/",
    "ws://127.0.0.1/", "filesystem:http://127.0.0.1/", "//127.0.0.1/", "/etc/passwd", "",
    "http://", "http://:80/", "http://[::1/", "https:127.0.0.1",
)  # fmt: skip


def name_the_trap(resolver: FlippingResolver) -> None:
    resolver.names |= {
        "trap.test": ["127.0.0.1"],
        "mixed.test": ["10.0.0.1 127.0.0.1 ::1"],
        "mapped.test": ["::ffff:127.0.0.1"],
        "rebind.test": [FAR_AWAY, "127.0.0.1"],
    }


async def browse(rooms: Rooms, url: str, agent_id: str = "main") -> BrowsedPage:
    page = OpenPage(url=url or " ")
    request = BrowseRequest(agent_id=agent_id, call_id="c", action=page, timeout_ms=60_000)
    return await rooms.browse(request)


def pass_of(proxy: EgressProxy) -> str:
    entry = proxy.issue("main")
    pair = base64.b64encode(f"{entry.username}:{entry.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {pair}"


async def ask_proxy(proxy: EgressProxy, request: str) -> bytes:
    port = int(proxy.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request}\r\n{pass_of(proxy)}\r\n\r\n".encode())
    try:
        async with asyncio.timeout(60):
            return await reader.readline()
    finally:
        writer.close()


@pytest.mark.parametrize("form", ["GET http://{}:{}/ HTTP/1.1", "CONNECT {}:{} HTTP/1.1"])
async def test_the_proxy_dials_no_form_of_a_private_address(
    trap: Trap, resolver: FlippingResolver, form: str
) -> None:
    async with EgressProxy(Dialler(Allowlist(), resolver)) as proxy:
        for host in HOSTS:
            name_the_trap(resolver)
            resolver.names["rebind.test"] = ["127.0.0.1"]
            answer = await ask_proxy(proxy, form.format(host, trap.port))
            assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502")), host
    assert trap.hits == []


async def test_the_proxy_serves_nobody_without_a_pass(site: Site) -> None:
    from_site = Dialler(Allowlist())
    async with EgressProxy(from_site) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        for head in ("", "Proxy-Authorization: Basic eDp5\r\n", "Proxy-Authorization: x\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {site.url}/ HTTP/1.1\r\n{head}\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 407")
            writer.close()
    assert site.requests == []


async def test_a_url_to_a_private_address_is_forbidden(
    make_rooms: MakeRooms, trap: Trap, resolver: FlippingResolver
) -> None:
    async with make_rooms("") as rooms:
        for host in HOSTS:
            for scheme in ("http", "https"):
                name_the_trap(resolver)
                with pytest.raises(ChoirError) as caught:
                    await browse(rooms, f"{scheme}://{host}:{trap.port}/")
                assert caught.value.status < 500 or "resolve" in caught.value.message, host
    assert trap.hits == []


async def test_only_the_web_can_be_opened(make_rooms: MakeRooms) -> None:
    async with make_rooms("") as rooms:
        for url in SCHEMES:
            with pytest.raises((Forbidden, BadInput)):
                await browse(rooms, url)


async def test_a_redirect_to_a_private_address_is_refused_and_said(
    make_rooms: MakeRooms, site: Site, trap: Trap, resolver: FlippingResolver
) -> None:
    name_the_trap(resolver)
    statuses = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")
    targets = ("127.0.0.1", "localhost", "[::1]", "2130706433", "trap.test", "0")
    async with make_rooms(f"127.0.0.1:{site.port}") as rooms:
        for number, target in enumerate(targets):
            for scheme in ("http", "https"):
                path = f"/{scheme}{number}"
                status = statuses[number % len(statuses)]
                site.paths[path] = redirect(f"{scheme}://{target}:{trap.port}/", status)
                with pytest.raises(Forbidden, match="private, local or reserved"):
                    await browse(rooms, site.url + path)
        site.paths["/file"] = redirect("file:///etc/passwd")
        with pytest.raises(BadInput):
            await browse(rooms, f"{site.url}/file")
        site.paths["/metadata"] = redirect("http://169.254.169.254/latest/meta-data/")
        with pytest.raises(Forbidden):
            await browse(rooms, f"{site.url}/metadata")
    assert trap.hits == []


PAGES = {
    "image": '<img src="http://{t}/">',
    "image over tls": '<img src="https://{t}/">',
    "frame": '<iframe src="http://{t}/"></iframe>',
    "frame in a document of its own": "<iframe srcdoc=\"<img src='http://{t}/'>\"></iframe>",
    "object": '<object data="http://{t}/"></object>',
    "embed": '<embed src="http://{t}/">',
    "script": '<script src="http://{t}/"></script>',
    "module": '<script type=module>import("http://{t}/x.js")</script>',
    "style": '<link rel=stylesheet href="http://{t}/">',
    "style import": '<style>@import url("http://{t}/");</style>',
    "background": '<div style="background:url(http://{t}/)">x</div>',
    "font": "<style>@font-face{{font-family:f;src:url(http://{t}/)}}p{{font-family:f}}</style><p>x",
    "video": '<video src="http://{t}/" autoplay></video>',
    "audio": '<audio src="http://{t}/" autoplay></audio>',
    "track": '<video><track default src="http://{t}/"></video>',
    "picture": '<picture><source srcset="http://{t}/"><img src="http://{t}/"></picture>',
    "svg": '<svg><image href="http://{t}/"/></svg>',
    "preload": '<link rel=preload as=fetch href="http://{t}/">',
    "prefetch": '<link rel=prefetch href="http://{t}/">',
    "preconnect": '<link rel=preconnect href="http://{t}/">',
    "icon": '<link rel=icon href="http://{t}/">',
    "manifest": '<link rel=manifest href="http://{t}/">',
    "speculation": '<script type=speculationrules>{{"prerender":[{{"urls":["http://{t}/"]}}]}}'
    "</script>",
    "fetch": '<script>fetch("http://{t}/",{{mode:"no-cors"}})</script>',
    "fetch of localhost": '<script>fetch("http://localhost:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of six": '<script>fetch("http://[::1]:{p}/",{{mode:"no-cors"}})</script>',
    "fetch of a name": '<script>fetch("http://trap.test:{p}/",{{mode:"no-cors"}})</script>',
    "xhr": '<script>x=new XMLHttpRequest;x.open("POST","http://{t}/");x.send("a")</script>',
    "beacon": '<script>navigator.sendBeacon("http://{t}/","a")</script>',
    "event source": '<script>new EventSource("http://{t}/")</script>',
    "websocket": '<script>new WebSocket("ws://{t}/")</script>',
    "websocket over tls": '<script>new WebSocket("wss://{t}/")</script>',
    "websocket of localhost": '<script>new WebSocket("ws://localhost:{p}/")</script>',
    "websocket of six": '<script>new WebSocket("ws://[::1]:{p}/")</script>',
    "websocket of a name": '<script>new WebSocket("ws://trap.test:{p}/")</script>',
    "webtransport": '<script>new WebTransport("https://{t}/")</script>',
    "stun": '<script>r=new RTCPeerConnection({{iceServers:[{{urls:"stun:{t}"}}]}});'
    'r.createDataChannel("x");r.createOffer().then(o=>r.setLocalDescription(o))</script>',
    "stun of a frame": "<iframe srcdoc='<script>r=new RTCPeerConnection({{iceServers:[{{urls:"
    '"stun:{t}"}}]}});r.createDataChannel("x");r.createOffer().then(o=>r.setLocalDescription(o))'
    "</script>'></iframe>",
    "worker": '<script>new Worker(URL.createObjectURL(new Blob([\'fetch("http://{t}/",{{mode:'
    '"no-cors"}})\'])))</script>',
    "worker import": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'importScripts(\"http://{t}/\")'])))</script>",
    "worker socket": "<script>new Worker(URL.createObjectURL(new Blob(["
    "'new WebSocket(\"ws://{t}/\")'])))</script>",
    "shared worker": "<script>new SharedWorker(URL.createObjectURL(new Blob(["
    '\'fetch("http://{t}/",{{mode:"no-cors"}})\'])))</script>',
    "form": '<form id=f method=post action="http://{t}/"></form><script>f.submit()</script>',
    "form in a frame": '<iframe name=i></iframe><form id=f target=i action="http://{t}/"></form>'
    "<script>f.submit()</script>",
    "window": '<script>open("http://{t}/")</script>',
    "location": '<script>location="http://{t}/"</script>',
    "location over tls": '<script>location="https://{t}/"</script>',
    "refresh": '<meta http-equiv=refresh content="0;url=http://{t}/">',
    "link pressed by script": '<a id=a href="http://{t}/">x</a><script>a.click()</script>',
    "link ping": '<a id=a href="#" ping="http://{t}/">x</a><script>a.click()</script>',
    "download": '<a id=a download href="http://{t}/">x</a><script>a.click()</script>',
    "redirected image": '<img src="/hop">',
    "redirected fetch": '<script>fetch("/hop",{{mode:"no-cors"}})</script>',
}


async def test_nothing_in_a_page_reaches_a_private_address(
    make_rooms: MakeRooms, site: Site, trap: Trap, resolver: FlippingResolver
) -> None:
    name_the_trap(resolver)
    site.paths["/slow"] = Answer(b"", delay_s=0.4)  # holds the load until scripts have run
    site.paths["/hop"] = redirect(f"http://127.0.0.1:{trap.port}/")
    words = "<p>harmless words, and enough of them to be taken for a page</p>"

    async def visit(rooms: Rooms, number: int, body: str) -> None:
        where = body.format(t=f"127.0.0.1:{trap.port}", p=trap.port)
        site.paths[f"/page{number}"] = html(f'{where}<img src="/slow">{words}')
        with contextlib.suppress(ChoirError):
            page = await browse(rooms, f"{site.url}/page{number}", agent_id=f"a{number % 4}")
            assert "SECRET" not in page.text

    async with make_rooms(f"127.0.0.1:{site.port}") as rooms:
        for start in range(0, len(PAGES), 4):
            names = list(PAGES)[start : start + 4]
            async with asyncio.TaskGroup() as group:
                for number, name in enumerate(names, start):
                    group.create_task(visit(rooms, number, PAGES[name]))
            assert trap.hits == [], names
        await asyncio.sleep(0.5)
    assert trap.hits == []


async def test_the_trap_would_have_been_hit_without_the_guard(
    make_rooms: MakeRooms, site: Site, trap: Trap
) -> None:
    site.paths["/page"] = html(PAGES["frame"].format(t=f"127.0.0.1:{trap.port}"))
    async with make_rooms("127.0.0.0/8") as rooms:
        await browse(rooms, f"{site.url}/page")
    assert trap.hits


async def test_a_page_cannot_read_files(make_rooms: MakeRooms, site: Site) -> None:
    site.paths["/page"] = html(
        '<iframe src="file:///etc/passwd"></iframe><img src="file:///etc/hostname">'
        "<script>fetch('file:///etc/passwd').then(r=>r.text()).then(t=>document.body.append(t))"
        "</script><p>these are harmless words, and enough of them</p>"
    )
    async with make_rooms(f"127.0.0.1:{site.port}") as rooms:
        assert "root:" not in (await browse(rooms, f"{site.url}/page")).text


async def test_a_reused_line_cannot_carry_a_request_to_another_host(site: Site, trap: Trap) -> None:
    site.paths["/"] = html("fine")
    async with EgressProxy(Dialler(parse_allowlist(f"127.0.0.1:{site.port}"))) as proxy:
        head = f"POST {site.url}/ HTTP/1.1\r\nContent-Length: 0\r\n{pass_of(proxy)}\r\n\r\n"
        smuggled = f"GET http://127.0.0.1:{trap.port}/ HTTP/1.1"
        answer = await ask_proxy(proxy, head + smuggled)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(site.requests) == 1
    assert trap.hits == []
