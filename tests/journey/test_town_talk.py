"""What phones and agents say and send: corrections, replies, files, speech, pictures, long answers."""

import asyncio
import http.server
import struct
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from choir_testing.telegram import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from tests.journey.town import (
    EVERYTHING,
    LOBBY,
    OGG,
    PATIENCE_S,
    Town,
    founding_town,
    sha256,
)
from tests.support.chromium import needs_chromium
from tests.support.fake_web_services import KEY
from tests.support.ogg import make_speech

pytestmark = pytest.mark.asyncio(loop_scope="module")
REPEATED = "(possibly repeated) "
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 30
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 3_000
FILM = b"\x00\x00\x00\x18ftypmp42" + bytes(range(256)) * 100
PAGE = """<!doctype html><title>Flags</title><style>body{margin:0}
#l{position:fixed;inset:0 50% 0 0;background:#c81e1e}#r{position:fixed;inset:0 0 0 50%;background:#1e3cc8}
p{position:fixed;left:20px;top:20px;color:#fff;font-size:40px}</style><div id=l></div><div id=r></div>
<p>Two flags</p>"""
RED, BLUE = (0xC8, 0x1E, 0x1E), (0x1E, 0x3C, 0xC8)


class Flags(http.server.BaseHTTPRequestHandler):
    """One page of two colours."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def flags() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flags)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(flags: str) -> AsyncIterator[Town]:
    def edit(config: dict[str, Any]) -> None:
        config["agents"]["aide"]["autostart"] = True

    async with founding_town(env={"CHOIR_BROWSER_ALLOW": flags}, edit=edit) as founded:
        yield founded


async def test_a_correction_and_a_reply_say_what_they_are_about(town: Town) -> None:
    await town.ben.asks("lunch at noon", "Lunch is noted.")
    mine, after = town.ben.user.last_sent(), town.ben.newest
    await town.ben.user.edit(mine, "lunch at eleven")
    await town.ben.sees("Moved from noon to eleven.", after)
    await town.ben.asks("who are you?", "An agent of the town.")
    answered = await town.ben.sees("An agent of the town.", after)
    await town.ben.user.reply(answered, "really?")
    await town.ben.sees("So you mean me.", after)


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("document", "übung (1).pdf", PDF),
        ("photo", "ignored", JPEG),
        ("voice", "ignored", OGG),
        ("video", "film.mp4", FILM),
    ],
)
async def test_an_agent_reads_what_a_person_sends(
    town: Town, kind: str, name: str, content: bytes
) -> None:
    after = town.cleo.newest
    await town.cleo.user.send_file(kind, name, content, "What is in it?")
    digest = (await town.cleo.sees("Its digest is", after)).text
    assert digest.split()[3] == sha256(content)
    received = list((town.workspace("aide") / ".choirtmp" / "recv").iterdir())
    assert any(path.read_bytes() == content for path in received)


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("document", "report.pdf", PDF),
        ("photo", "view.jpg", JPEG),
        ("voice", "speech.ogg", OGG),
        ("video", "film.mp4", FILM),
    ],
)
async def test_what_an_agent_sends_comes_as_what_it_is_with_a_caption(
    town: Town, kind: str, name: str, content: bytes
) -> None:
    after = town.cleo.newest
    await town.cleo.user.send_file("document", name, content, f"Send it back as {name}")
    back = await town.cleo.finds(lambda m: m.file_kind is not None, after, "a file")
    assert (back.file_kind, back.text) == (kind, f"This is {name}.")
    assert back.file_bytes == content
    await town.cleo.sees("Sent back.", after)
    assert not (town.workspace("aide") / ".choirtmp" / "send" / name).exists()


async def test_an_agent_speaks(town: Town) -> None:
    after = town.ben.newest
    await town.ben.asks("Say aloud: good morning", "Said.")
    spoken = await town.ben.finds(lambda m: m.file_kind is not None, after, "speech")
    assert (spoken.file_kind, spoken.file_bytes) == ("voice", OGG)
    body = town.voice.asked[-1].body
    assert isinstance(body, dict) and body["text"] == "good morning"


async def test_a_voice_message_is_understood_and_answered_with_one(town: Town) -> None:
    after = town.ben.newest
    await town.ben.user.send_file("voice", "ignored", make_speech("So, who are you?"))
    answer = await town.ben.finds(lambda m: m.file_kind is not None, after, "speech")
    assert (answer.file_kind, answer.file_bytes) == ("voice", OGG)
    await town.ben.sees("An agent of the town.", after)
    body = town.voice.asked[-1].body
    assert isinstance(body, dict) and body["text"] == "An agent of the town."
    assert town.ears.heard[-1].fields["model"] == "whisper-1"


async def test_a_voice_message_that_cannot_be_transcribed_says_why(town: Town) -> None:
    speech, after = make_speech("So, who are you?"), town.ben.newest
    town.ears.key = "another"
    await town.ben.user.send_file("voice", "ignored", speech)
    told = await town.ben.sees("I could not transcribe", after)
    assert "choirctl secret set tts-key" in told.text
    town.ears.key = KEY
    await town.ears.stop()
    await town.ben.user.send_file("voice", "ignored", speech)
    told = await town.ben.sees("I could not transcribe", told.message_id)
    assert "cannot be reached" in told.text
    await town.ears.start()


async def test_a_voice_message_survives_a_restart_while_it_is_transcribed(town: Town) -> None:
    after, before = town.ben.newest, len(town.ears.heard)
    town.ears.hears.clear()
    await town.ben.user.send_file("voice", "ignored", make_speech("So, who are you?"))
    async with asyncio.timeout(PATIENCE_S):
        while len(town.ears.heard) == before:
            await asyncio.sleep(0.05)
    await town.ben.asks("/restart", "helper has restarted")
    town.ears.hears.set()
    await town.ben.sees("An agent of the town.", after)
    answers = [m for m in town.ben.user.chat.messages.values() if m.message_id > after]
    assert sum(m.file_kind == "voice" and m.from_bot for m in answers) == 1


async def test_a_file_that_telegram_no_longer_has_is_said_and_not_waited_for(town: Town) -> None:
    await town.ben.user.send_file("document", "gone.txt", b"x", "Is it there?")
    town.telegram.bot(LOBBY).forget_files()
    told = await town.ben.sees("it is not available")
    assert "gone.txt" in told.text


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Decode a PNG of eight bits a channel: width, channels, rows."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data, width, channels = 8, b"", 0, 0
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        assert (
            zlib.crc32(kind + body) == struct.unpack(">I", png[at + 8 + size : at + 12 + size])[0]
        )
        if kind == b"IHDR":
            width, _, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        at += size + 12
    return width, channels, unfiltered(zlib.decompress(data), width * channels, channels)


def unfiltered(data: bytes, stride: int, channels: int) -> list[bytes]:
    """Undo the filters of PNG, row by row."""
    rows: list[bytes] = []
    above = bytes(stride)
    for start in range(0, len(data), stride + 1):
        kind, row = data[start], bytearray(data[start + 1 : start + 1 + stride])
        for x in range(stride):
            left = row[x - channels] if x >= channels else 0
            corner = above[x - channels] if x >= channels else 0
            row[x] = (row[x] + predicted(kind, left, above[x], corner)) & 0xFF
        above = bytes(row)
        rows.append(above)
    return rows


def predicted(kind: int, left: int, up: int, corner: int) -> int:
    """Return what a filter of PNG takes a byte to be."""
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    guess = left + up - corner
    return min((left, up, corner), key=lambda near: abs(guess - near))


@pytest.mark.nightly  # tests/service/browser/test_files.py takes pictures, the next tests send them
@needs_chromium
async def test_a_picture_of_a_page_reaches_the_phone_and_shows_that_page(
    town: Town, flags: str
) -> None:
    after = town.ada.newest
    await town.ada.user.send(f"Show me http://{flags}/two")
    photo = await town.ada.finds(lambda m: m.file_kind is not None, after, "a picture")
    await town.ada.sees("Shown.", after)
    assert (photo.file_kind, photo.text) == ("photo", "This is what I see.")
    assert photo.file_bytes is not None
    width, channels, rows = pixels(photo.file_bytes)
    assert width >= 800 and len(rows) >= 500

    def colour(x: float, y: float) -> tuple[int, ...]:
        place = int(x * width) * channels
        return tuple(rows[int(y * len(rows))][place : place + 3])

    for y in (0.3, 0.6, 0.95):
        assert {colour(x, y) for x in (0.02, 0.25, 0.48)} == {RED}
        assert {colour(x, y) for x in (0.52, 0.75, 0.98)} == {BLUE}
    heading = {
        tuple(rows[y][x * channels : x * channels + 3])
        for y in range(20, 80)
        for x in range(20, 200)
    }
    assert (255, 255, 255) in heading  # the words stand on it


async def read_everything(town: Town) -> list[str]:
    """Ask for the long answer; return its parts once the last word is there."""
    after = town.ada.newest
    await town.ada.user.send("Please tell me everything")
    last = EVERYTHING.split()[-1]
    await town.ada.finds(lambda m: m.text.endswith(last), after, last)
    return [
        m.text for m in town.ada.user.chat.messages.values() if m.from_bot and m.message_id > after
    ]


async def test_a_long_answer_arrives_once_in_order_and_complete_under_limits_and_cut_lines(
    town: Town,
) -> None:
    faults = (
        *(TooManyRequests(1), NoFault(), DisconnectBefore(), TooManyRequests(2), NoFault()),
        *(
            ErrorResponse(500, "Internal Server Error"),
            NoFault(),
            TooManyRequests(1),
            DisconnectAfter(),
        ),
    )
    town.telegram.script("sendMessage", *faults, token=LOBBY)
    parts = await read_everything(town)
    marked = [part for part in parts if part.startswith(REPEATED)]
    # the one whose answer was cut off stands there twice, and says so
    whole = [part.removeprefix(REPEATED) for part in parts]
    once = list(dict.fromkeys(whole))
    assert len(whole) - len(once) == 1 and len(marked) == 3
    assert "\n\n".join(once).split() == EVERYTHING.split()
    assert all(len(part.encode("utf-16-le")) // 2 <= 4096 for part in parts)


async def test_a_long_answer_goes_on_where_a_killed_gateway_stopped(town: Town) -> None:
    town.telegram.script("sendMessage", NoFault(), NoFault(), TooManyRequests(30), token=LOBBY)
    calls = town.telegram.bot(LOBBY).calls
    before, asking = len(calls), asyncio.create_task(read_everything(town))

    def tried() -> int:
        return sum(call.method == "sendMessage" for call in calls[before:])

    async with asyncio.timeout(120):
        while tried() < 3:
            await asyncio.sleep(0.02)
    await town.stack.kill("gateway")
    parts = await asking
    assert "\n\n".join(part.removeprefix(REPEATED) for part in parts).split() == EVERYTHING.split()
    assert [part.startswith(REPEATED) for part in parts].index(True) == 2
    assert tried() == len(parts) + 1
