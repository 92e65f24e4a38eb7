"""Files never leave the workspace: GUARANTEES row S3 (paths, symlinks, fifos, sockets, swap races)."""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from choir_agent.tools.beneath import Beneath
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace

CANARY = "outside-canary"
UPS = ["../" * depth for depth in range(1, 9)]
ESCAPES = [
    *[f"{up}outside/secret" for up in UPS],
    *[f"in/{up}../outside/secret" for up in UPS],
    *[f"./{up}etc/passwd" for up in UPS],
    *[f"in/./{up}../etc/hostname" for up in UPS],
    "/etc/passwd",
    "//etc/passwd",
    "/./etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/proc/1/root/etc/passwd",
    "/dev/null",
    "/dev/zero",
    "{root}/../outside/secret",
    "{root}/in/../../outside/secret",
    "{root}x/secret",
    "{outside}/secret",
    "..",
    "../",
    "in/../..",
    "link-file",
    "link-dir/secret",
    "link-dir/../outside/secret",
    "link-up/outside/secret",
    "link-root/etc/passwd",
    "link-proc/self/environ",
    "link-chain",
    "in/link-deep",
    "link-dir/./secret",
    "in/../link-file",
    "link-self-fd/0",
    "link-dir/new-file",
    "link-dangling-out",
]
MALFORMED = ["", "a\x00b", "\x00", "../\x00", "x" * 5000, "a/" * 3000, "é" * 2100]
ODD_BUT_INSIDE = [
    "%2e%2e/outside/secret",
    "..%2foutside",
    "..\\outside\\secret",
    "~/x",
    "...",
    "$HOME",
]
SPECIAL = ["fifo", "socket", "in", ".", "loop-a", "device"]


@dataclass(frozen=True)
class Place:
    """A workspace beside a directory that nobody may reach."""

    root: Path
    outside: Path
    workspace: Workspace

    def path(self, vector: str) -> str:
        return vector.replace("{root}", str(self.root)).replace("{outside}", str(self.outside))

    def read(self, vector: str) -> bytes:
        descriptor = self.workspace.open_file(self.workspace.canonical(self.path(vector)))
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def write(self, vector: str) -> None:
        self.workspace.replace_file(self.workspace.canonical(self.path(vector)), b"overwritten")

    def outside_is_untouched(self) -> bool:
        return [(p.name, p.read_text()) for p in self.outside.iterdir()] == [("secret", CANARY)]


@pytest.fixture(params=["openat2", "walk"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Make a workspace full of traps; once for the kernel's own way of opening, once for ours."""
    with tempfile.TemporaryDirectory(prefix="choir-t-") as name:
        top = Path(name).resolve()
        root, outside = top / "ws", top / "outside"
        (root / "in").mkdir(parents=True)
        outside.mkdir()
        (outside / "secret").write_text(CANARY)
        links = {
            "link-file": outside / "secret",
            "link-dir": outside,
            "link-up": "..",
            "link-root": "/",
            "link-proc": "/proc",
            "link-self-fd": "/proc/self/fd",
            "link-chain": "link-file",
            "link-dangling-out": outside / "new",
            "in/link-deep": "../../outside/secret",
            "loop-a": "loop-b",
            "loop-b": "loop-a",
        }
        for link, target in links.items():
            (root / link).symlink_to(target)
        os.mkfifo(root / "fifo")
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(root / "socket"))
        with suppress(OSError):
            os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 5))
        workspace = Workspace(root)
        if request.param == "walk":
            workspace._beneath.uses_openat2 = False
        elif not workspace._beneath.uses_openat2:
            pytest.skip("this kernel has no openat2")
        yield Place(root, outside, workspace)
        workspace.close()
        bound.close()


def test_there_are_enough_vectors() -> None:
    assert len({*ESCAPES, *MALFORMED, *ODD_BUT_INSIDE, *SPECIAL}) >= 60


@pytest.mark.parametrize("vector", ESCAPES)
def test_no_path_leads_out(place: Place, vector: str) -> None:
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed) as caught:
            attempt(vector)
        assert caught.value.kind in ("outside_workspace", "not_a_file", "bad_path")
    assert place.outside_is_untouched()


@pytest.mark.parametrize("vector", MALFORMED)
def test_a_malformed_path_is_a_clear_error(place: Place, vector: str) -> None:
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed):
            attempt(vector)


@pytest.mark.parametrize("vector", ODD_BUT_INSIDE)
def test_a_path_that_only_looks_like_a_way_out_is_a_plain_name(place: Place, vector: str) -> None:
    place.write(vector)
    assert place.read(vector) == b"overwritten"
    assert place.outside_is_untouched()


@pytest.mark.parametrize("vector", SPECIAL)
def test_only_regular_files_are_opened_and_nothing_hangs(place: Place, vector: str) -> None:
    if vector == "device" and not (place.root / "device").exists():
        pytest.skip("this user may not make device nodes")
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed):
            attempt(vector)


def test_a_symlink_put_in_place_after_the_check_is_not_followed(place: Place) -> None:
    (place.root / "in/file").write_text("inside")
    canonical = place.workspace.canonical("in/file")
    (place.root / "in").rename(place.root / "moved")
    (place.root / "in").symlink_to(place.outside)
    (place.outside / "file").write_text(CANARY)
    with pytest.raises(ToolFailed):
        place.workspace.open_file(canonical)
    with pytest.raises(ToolFailed):
        place.workspace.replace_file(canonical, b"overwritten")
    assert (place.outside / "file").read_text() == CANARY


def test_a_directory_that_is_swapped_all_the_time_never_leads_out(place: Place) -> None:
    (place.root / "real").mkdir()
    (place.root / "real/secret").write_text("inside")
    swapped, stop = place.root / "swapped", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("real", str(place.outside)):
                draft = place.root / "draft"
                draft.unlink(missing_ok=True)
                draft.symlink_to(target)
                try:
                    draft.replace(swapped)
                except IsADirectoryError:
                    # a write that saw no link there made a directory of that name, inside
                    swapped.rename(place.root / f"made-{os.urandom(4).hex()}")

    thread = threading.Thread(target=swap)
    thread.start()
    read: set[bytes] = set()
    try:
        for _ in range(3000):
            with suppress(ToolFailed):
                read.add(place.read("swapped/secret"))
            with suppress(ToolFailed):
                place.write("swapped/secret")
    finally:
        stop.set()
        thread.join()
    assert CANARY.encode() not in read
    assert place.outside_is_untouched()


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "in/../../x", "link-file", "link-dir/secret"]
)
def test_opening_itself_refuses_ways_out(place: Place, path: str) -> None:
    descriptor = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY)
    beneath = Beneath(descriptor)
    beneath.uses_openat2 = place.workspace._beneath.uses_openat2
    with pytest.raises(OSError):
        os.close(beneath.open(path, os.O_RDONLY))
    os.close(descriptor)
