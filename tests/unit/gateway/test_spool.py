"""The console's spool: what it keeps, what it drops, and what it never touches."""

import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from choir_common.errors import NotFound, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment
from choir_gateway.channels.spool import FileSpool, SpoolLimits

FILE = Attachment(name="a", kind="document", ref="none")
KEPT = timedelta(days=1)


def make_spool(root: Path) -> FileSpool:
    return FileSpool(root / "spool", SpoolLimits(1_000, 3_000, KEPT))


async def pieces(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


async def broken(size: int) -> AsyncIterator[bytes]:
    yield b"x" * size
    raise ConnectionResetError


async def read(source: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in source])


def held(spool: Path) -> list[Path]:
    return sorted(path for path in spool.rglob("*") if path.is_file())


async def test_what_was_taken_is_given_back_with_its_description(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    taken = await spool.store_upload("console", FILE, pieces(400, 500))
    assert taken.size == 900 and await spool.read_description("console", taken.ref) == taken
    assert await read(await spool.open_upload(taken.ref)) == b"x" * 900


@pytest.mark.parametrize("dm", ["second", "", "..", "."])
async def test_a_ref_is_of_one_conversation(tmp_path: Path, dm: str) -> None:
    spool = make_spool(tmp_path)
    ref = (await spool.store_upload("console", FILE, pieces(1))).ref
    for asked in (ref, f"{dm}/{ref.partition('/')[2]}"):
        with pytest.raises(NotFound):
            await spool.read_description(dm, asked)


@pytest.mark.parametrize(
    "ref",
    ["", "/", "console/", "console/../../secret", "../secret", "console/..", "secret", "\0/a"],
)
async def test_no_ref_leads_out_of_the_spool(tmp_path: Path, ref: str) -> None:
    (tmp_path / "secret").write_text("s")
    spool = make_spool(tmp_path)
    with pytest.raises(NotFound):
        await spool.open_upload(ref)
    with pytest.raises(NotFound):
        await spool.open_outgoing("console", 1, ref)


async def test_what_is_too_large_or_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    with pytest.raises(TooLarge):
        await spool.store_upload("console", FILE, pieces(600, 600))
    with pytest.raises(ConnectionResetError):
        await spool.store_upload("console", FILE, broken(10))
    with pytest.raises(ConnectionResetError):
        await spool.store_outgoing("console", 1, "0", broken(10))
    assert held(tmp_path / "spool") == []
    with pytest.raises(NotFound):
        await spool.open_outgoing("console", 1, "0")


async def test_what_was_brought_is_not_brought_again(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    await spool.store_outgoing("console", 7, "0", pieces(5))
    await spool.store_outgoing("console", 7, "0", broken(1))
    assert await read(await spool.open_outgoing("console", 7, "0")) == b"x" * 5
    with pytest.raises(NotFound):
        await spool.open_outgoing("second", 7, "0")


async def test_a_full_spool_takes_nothing_and_drops_the_oldest_that_agents_sent(
    tmp_path: Path,
) -> None:
    spool = make_spool(tmp_path)
    mine = await spool.store_upload("console", FILE, pieces(900))
    for number in (1, 2):
        await spool.store_outgoing("console", number, "0", pieces(900))
        os.utime(tmp_path / f"spool/out/console/{number}/0", (time.time() - 100 + number,) * 2)
    with pytest.raises(Unavailable):
        await spool.store_upload("console", FILE, pieces(900))
    assert await read(await spool.open_outgoing("console", 1, "0"))
    await spool.store_outgoing("console", 3, "0", pieces(900))
    with pytest.raises(NotFound):
        await spool.open_outgoing("console", 1, "0")
    for number in (2, 3):
        assert await read(await spool.open_outgoing("console", number, "0"))
    assert await read(await spool.open_upload(mine.ref))


async def test_what_nobody_fetched_for_too_long_goes(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    old = await spool.store_upload("console", FILE, pieces(10))
    for path in held(tmp_path / "spool"):
        os.utime(path, (time.time() - KEPT.total_seconds() - 1,) * 2)
    new = await spool.store_upload("console", FILE, pieces(10))
    with pytest.raises(NotFound):
        await spool.read_description("console", old.ref)
    assert await spool.read_description("console", new.ref) == new
