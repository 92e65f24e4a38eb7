"""Files on their way out of a page: pictures and downloads, to the shelf and into a workspace."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from choir_browser.settings import BrowserSettings
from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.errors import Forbidden, InvalidRequest, NotFound, TooLarge
from choir_common.http.client import make_client, stream_download
from choir_common.wire.browser import (
    BrowseRequest,
    BrowseToolOutput,
    Download,
    DownloadHandle,
    OpenPage,
    Screenshot,
)
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.host_tools.browse import ArtifactDownload, BrowseTool
from choir_control.log.leases.store import Lease
from tests.security.browser.web import Answer, Site, html, open_site, redirect
from tests.service.browser.acting import Surfer, surfing
from tests.support.bus import BUS_KEY
from tests.support.chromium import needs_chromium
from tests.support.service_process import (
    ServiceProcess,
    running_bus_server,
    service_process,
)

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]

RED = '<body style="margin:0;background:#ff0000"><div style="height:3000px">tall</div><b id=x>x</b>'
FILE = bytes(range(256)) * 2_000
ATTACHED = (
    "Content-Type: application/pdf",
    'Content-Disposition: attachment; filename="../../my report.pdf"',
)


class WorkspacesBelow:
    """A configuration whose workspaces are below one directory."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def root_of(self, workspace: str) -> Path:
        return self._top / workspace


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Surfer]:
    async with surfing(BrowserSettings(browser_max_file_mb=1)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def surfer(shared: Surfer) -> AsyncIterator[Surfer]:
    """An agent that has no context yet, in the browser that these tests share."""
    shared.site.paths.clear()
    shared.site.requests.clear()
    yield Surfer(shared.rooms, shared.site)
    await shared.rooms.close("main")


async def test_a_picture_is_taken_of_the_screen_the_page_and_one_thing(surfer: Surfer) -> None:
    surfer.site.paths["/"] = html(f"{RED}<button style='width:200px;height:50px'>Big</button>")
    await surfer.open("/")
    screen = await surfer.do(Screenshot())
    assert screen.blob is not None
    assert (screen.blob.name, screen.blob.mime) == ("127.0.0.1.png", "image/png")
    width, height = size_of(surfer.bytes_of(screen))
    whole = surfer.bytes_of(await surfer.do(Screenshot(full=True)))
    assert size_of(whole)[0] == width and size_of(whole)[1] > 3_000 > height
    button = await surfer.do(Screenshot(ref=surfer.ref("Big")))
    assert size_of(surfer.bytes_of(button)) == (200, 50)
    with pytest.raises(NotFound):
        surfer.bytes_of(button)


async def test_a_file_is_fetched_by_address_link_and_button_with_the_cookies_of_the_page(
    surfer: Surfer,
) -> None:
    site = surfer.site
    kind = "Content-Type: text/html"
    page = b"<a href=/moved>Report</a><form action=/file method=post><button>Make</button></form>"
    site.paths["/"] = Answer(page, headers=("Set-Cookie: who=me; Path=/", kind))
    site.paths["/moved"] = redirect("/file")
    site.paths["/file"] = Answer(FILE, headers=ATTACHED)
    site.paths["/shown"] = html("<p>not attached, and still a file</p>")
    await surfer.open("/")
    for action in (
        Download(ref=surfer.ref("Report")),
        Download(ref=surfer.ref("Make")),
        Download(url=f"{site.url}/file"),
    ):
        got = await surfer.do(action)
        assert got.blob is not None
        assert (got.blob.name, got.blob.mime) == ("my_report.pdf", "application/pdf")
        assert got.url == f"{site.url}/file" and surfer.bytes_of(got) == FILE
        assert "who=me" in site.requests[-1]
    shown = await surfer.do(Download(url=f"{site.url}/shown"))
    assert shown.blob is not None and shown.blob.name == "shown.html"
    assert b"still a file" in surfer.bytes_of(shown)
    with pytest.raises(InvalidRequest, match="returned status 404"):
        await surfer.do(Download(url=f"{site.url}/none"))
    with pytest.raises(InvalidRequest, match="either"):
        await surfer.do(Download())
    site.paths["/inside"] = redirect("http://10.0.0.1/secret")
    with pytest.raises(Forbidden, match="CHOIR_BROWSER_ALLOW"):
        await surfer.do(Download(url=f"{site.url}/inside"))
    with pytest.raises(Forbidden):
        await surfer.do(Download(url="file:///etc/passwd"))


async def test_a_file_larger_than_allowed_is_cut_off_whether_announced_or_not(
    surfer: Surfer,
) -> None:
    surfer.site.paths["/large"] = Answer(b"x" * 3_000_000, headers=ATTACHED)
    with pytest.raises(TooLarge, match="1 MB"):
        await surfer.do(Download(url=f"{surfer.site.url}/large"))
    surfer.site.paths["/ok"] = html("<p>still at work</p>")
    assert "still at work" in (await surfer.open("/ok")).text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker_site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(worker_site: Site) -> AsyncIterator[ServiceProcess]:
    """One worker for the tests that ask it over the bus."""
    async with running_bus_server() as nats, service_process("choir_browser", nats.url) as process:
        process.env["CHOIR_BROWSER_ALLOW"] = f"127.0.0.1:{worker_site.port}"
        await process.start()
        yield process
        await process.stop()


async def test_control_lays_pictures_and_downloads_into_the_workspace(
    worker: ServiceProcess, worker_site: Site, tmp_path: Path
) -> None:
    site = worker_site
    async with Bus(worker.nats_url, BUS_KEY, "test") as bus:
        site.paths["/"] = html("<p>a page</p>")
        site.paths["/file"] = Answer(FILE, headers=ATTACHED)
        async with make_client(worker.endpoint) as door:
            tool = BrowseTool(
                NatsBrowserClient(bus),
                ArtifactDownload(door, WorkspacesBelow(tmp_path)),  # type: ignore[arg-type]
            )
            (tmp_path / "desk").mkdir()
            lease = Lease("s", "main", 1, b"", ResourceBindings(workspace="desk", dm="d", llm="m"))

            async def do(action: OpenPage | Screenshot | Download) -> BrowseToolOutput:
                given = {"action": action.model_dump(mode="json"), "timeout_ms": 60_000}
                done = await tool.browse(lease, "c", given)
                assert isinstance(done, BrowseToolOutput)
                return done

            assert (await do(OpenPage(url=f"{site.url}/"))).file is None
            picture = (await do(Screenshot())).file
            assert picture is not None and picture.path == ".choirtmp/send/127.0.0.1.png"
            assert size_of((tmp_path / "desk" / picture.path).read_bytes())
            paths = []
            for _ in range(2):
                file = (await do(Download(url=f"{site.url}/file"))).file
                assert file is not None and file.size == len(FILE)
                assert (tmp_path / "desk" / file.path).read_bytes() == FILE
                paths.append(file.path)
            assert paths == [".choirtmp/recv/my_report.pdf", ".choirtmp/recv/my_report-2.pdf"]


async def test_the_door_gives_a_file_once_and_only_to_who_knows_its_name(
    worker: ServiceProcess, worker_site: Site
) -> None:
    site = worker_site
    async with Bus(worker.nats_url, BUS_KEY, "test") as bus:
        site.paths["/file"] = Answer(FILE, headers=ATTACHED)
        page = await NatsBrowserClient(bus).browse(
            BrowseRequest(
                agent_id="main",
                call_id="c",
                action=Download(url=f"{site.url}/file"),
                timeout_ms=60_000,
            )
        )
        assert isinstance(page.blob, DownloadHandle)
        async with make_client(worker.endpoint) as door:
            paths = ("/v1/blobs/", "/v1/blobs/x", "/v1/blobs/" + "A" * 43, "/v1/blobs")
            for path in paths:
                assert (await door.get(path)).status_code == 404
            first, second = await asyncio.gather(
                *(door.get(f"/v1/blobs/{page.blob.blob_id}") for _ in range(2))
            )
            assert sorted((first.status_code, second.status_code)) == [200, 404]
            assert FILE in (first.content, second.content)
            with pytest.raises(NotFound):
                async with stream_download(door, f"/v1/blobs/{page.blob.blob_id}"):
                    pass
