"""Reduction of a picture to the size that models read. Loaded by the child process only.

The result has none of the original's metadata, such as the place where a photo was taken. The same picture
always gives the same bytes, which providers' prefix caches depend on.
"""

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from choir_files.errors import UnreadableFile

MAX_EDGE = 1_568
"""Pixels of the longer side; providers reduce larger pictures themselves."""
MAX_PIXELS = 60_000_000
"""Pixels of the original; decoded, they take three or four bytes each."""
MAX_PNG_BYTES = 400_000
"""A larger PNG is sent as JPEG; text in a screenshot stays sharp in a PNG."""
JPEG_QUALITY = 85
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")

# Otherwise the plug-ins are imported with the first picture, when no file can be opened any more.
Image.init()
# Our limit replaces the library's, which is an error without advice.
Image.MAX_IMAGE_PIXELS = None


def reduce_picture(content: bytes) -> bytes:
    """Return `MIME WIDTH HEIGHT` in one line, and then the reduced picture.

    Raises UnreadableFile, and any exception for a damaged picture.
    """
    try:
        picture: Image.Image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:
        raise UnreadableFile(f"is not a picture of a known format ({', '.join(FORMATS)})") from None
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise UnreadableFile(
            f"has {width} x {height} pixels; at most {MAX_PIXELS // 1_000_000} million are read"
        )
    source_format = picture.format
    picture.draft("RGB", (MAX_EDGE, MAX_EDGE))
    picture = ImageOps.exif_transpose(picture)
    picture.thumbnail((MAX_EDGE, MAX_EDGE))
    picture = _without_transparency(picture)
    mime, encoded = "image/jpeg", b""
    if source_format in ("PNG", "GIF", "BMP"):
        mime, encoded = "image/png", _encode(picture, "PNG")
    if not encoded or len(encoded) > MAX_PNG_BYTES:
        mime, encoded = "image/jpeg", _encode(picture, "JPEG")
    return f"{mime} {picture.width} {picture.height}\n".encode() + encoded


def _without_transparency(picture: Image.Image) -> Image.Image:
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    layer = picture.convert("RGBA")
    background = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(background, layer).convert("RGB")


def _encode(picture: Image.Image, name: str) -> bytes:
    output = io.BytesIO()
    # a new image, so that no metadata of the original is saved with it
    plain = Image.frombytes(picture.mode, picture.size, picture.tobytes())
    plain.save(output, name, quality=JPEG_QUALITY, optimize=True)
    return output.getvalue()
