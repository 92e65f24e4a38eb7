"""Pictures are reduced in the child process to what models read; hostile ones end with a reason."""

import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from choir_files.errors import UnreadableFile
from choir_files.pictures import MAX_EDGE, MAX_PIXELS
from choir_files.reader import FileReader, ReducedPicture
from choir_files.sandbox import ReadLimits

PLACE = "Latitude 52.5163"


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    made = FileReader(ReadLimits(memory_mb=768, cpu_s=10))
    yield made
    made.close()


def reduce(reader: FileReader, path: Path) -> ReducedPicture:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return reader.reduce_picture(descriptor)
    finally:
        os.close(descriptor)


def pixels(picture: ReducedPicture) -> Image.Image:
    return Image.open(io.BytesIO(picture.content))


def test_a_photo_is_made_smaller_upright_and_loses_its_place(
    reader: FileReader, tmp_path: Path
) -> None:
    path = tmp_path / "photo.jpg"
    photo = Image.new("RGB", (4_000, 3_000), "red")
    photo.paste("blue", (0, 0, 2_000, 3_000))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif[0x010E] = PLACE
    photo.save(path, exif=exif)
    first, second = reduce(reader, path), reduce(reader, path)
    assert first == second
    assert (first.mime, first.width, first.height) == ("image/jpeg", MAX_EDGE * 3 // 4, MAX_EDGE)
    assert PLACE.encode() in path.read_bytes() and PLACE.encode() not in first.content
    shown = pixels(first)
    assert shown.size == (first.width, first.height) and not shown.getexif()
    # the left half is now the upper one
    blue, red = shown.getpixel((600, 100)), shown.getpixel((600, 1_500))
    assert isinstance(blue, tuple) and isinstance(red, tuple)
    assert blue[2] > 200 and red[0] > 200


@pytest.mark.parametrize("suffix", ["png", "gif", "webp", "bmp", "tiff"])
def test_each_format_becomes_one_that_models_take(
    reader: FileReader, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", (40, 30), "green").save(path)
    picture = reduce(reader, path)
    assert picture.mime in ("image/png", "image/jpeg")
    assert (picture.width, picture.height) == pixels(picture).size == (40, 30)


def test_what_is_transparent_becomes_white_and_sharp_text_stays_png(
    reader: FileReader, tmp_path: Path
) -> None:
    path = tmp_path / "shot.png"
    Image.new("RGBA", (200, 100), (0, 0, 0, 0)).save(path)
    picture = reduce(reader, path)
    assert picture.mime == "image/png"
    assert pixels(picture).getpixel((5, 5)) == (255, 255, 255)


def test_a_large_noisy_png_becomes_a_jpeg(reader: FileReader, tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    Image.frombytes("RGB", (800, 800), os.urandom(800 * 800 * 3)).save(path)
    assert reduce(reader, path).mime == "image/jpeg"


def _bomb() -> bytes:
    """Return a PNG of 60,000 x 60,000 pixels in a few bytes."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)

    head = (60_000).to_bytes(4) * 2 + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_bomb(), f"at most {MAX_PIXELS // 1_000_000} million are read"),
        (b"MZ" + bytes(500), "is not a picture of a known format"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a picture of a known format"),
        (b"\xff\xd8\xff\xe0" + bytes(300), "is not a picture of a known format|is damaged"),
        (b"", "is not a picture of a known format"),
    ],
)
def test_a_hostile_picture_ends_with_a_reason_and_the_next_is_read(
    reader: FileReader, tmp_path: Path, content: bytes, reason: str
) -> None:
    path, sound = tmp_path / "x.png", tmp_path / "y.png"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=reason):
        reduce(reader, path)
    Image.new("RGB", (3, 3)).save(sound)
    assert reduce(reader, sound).width == 3
