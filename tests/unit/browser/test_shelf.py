"""Files that wait for control, and the names that strangers give them."""

from datetime import UTC, datetime

import pytest

from choir_browser.blobs.store import LIFETIME, MAX_BLOBS, BlobStore
from choir_browser.pages.filenames import download_name, safe_file_name, url_origin
from choir_common.errors import NotFound, TooLarge, Unavailable
from choir_common.wire.browser import DownloadHandle


class SetClock:
    """A clock that stands still until it is moved."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def put(shelf: BlobStore, content: bytes = b"content") -> DownloadHandle:
    draft = shelf.new_blob()
    draft.write(content)
    return shelf.store(draft, "file.txt", "text/plain")


def test_a_file_is_given_once_whole() -> None:
    shelf = BlobStore(SetClock(), 1_000_000)
    content = bytes(range(256)) * 3_000
    blob = put(shelf, content)
    assert blob.size == len(content) and len(blob.blob_id) > 40
    assert b"".join(shelf.fetch(blob.blob_id)) == content
    with pytest.raises(NotFound):
        shelf.fetch(blob.blob_id)


def test_a_file_is_not_kept_longer_than_a_minute_nor_are_there_many() -> None:
    clock = SetClock()
    shelf = BlobStore(clock, 1_000_000)
    blobs = [put(shelf) for _ in range(MAX_BLOBS)]
    with pytest.raises(Unavailable, match="Too many"):
        put(shelf)
    clock.seconds += LIFETIME.total_seconds() + 1
    with pytest.raises(NotFound):
        shelf.fetch(blobs[0].blob_id)
    put(shelf)
    shelf.close()


def test_a_file_grows_no_larger_than_allowed() -> None:
    draft = BlobStore(SetClock(), 1_000_000).new_blob()
    draft.write(b"x" * 900_000)
    with pytest.raises(TooLarge, match="1 MB"):
        draft.write(b"x" * 200_000)
    draft.close()


@pytest.mark.parametrize(
    ("url", "disposition", "mime", "name"),
    [
        ("https://a.test/x/report.pdf?y=1", "", "application/pdf", "report.pdf"),
        ("https://a.test/get", "attachment; filename=a.csv", "text/csv", "a.csv"),
        ("https://a.test/get", 'attachment; filename="../../etc/passwd"', "", "passwd"),
        ("https://a.test/get", 'attachment; filename="..\\\\..\\\\boot.ini"', "", "boot.ini"),
        (
            "https://a.test/get",
            "attachment; filename*=UTF-8''M%C3%BCnchen%20Plan.pdf",
            "",
            "München_Plan.pdf",
        ),
        ("https://a.test/", "", "text/html", "file.html"),
        ("https://a.test/%2e%2e%2f.bashrc", "", "", "bashrc"),
        ("https://a.test/photo", "", "image/png", "photo.png"),
    ],
)
def test_a_download_gets_a_harmless_name(url: str, disposition: str, mime: str, name: str) -> None:
    assert download_name(url, disposition, mime) == name


def test_a_name_is_never_hidden_a_path_or_long() -> None:
    assert safe_file_name("...") == "file" and safe_file_name("a/b\x00c\n") == "a_b_c"
    assert (
        len(safe_file_name("x" * 500 + ".tar")) == 80
        and safe_file_name("x" * 500 + ".tar")[-4:] == ".tar"
    )


def test_an_origin_is_scheme_host_and_port_without_the_user() -> None:
    assert url_origin("https://me:secret@a.test:8443/x?y") == "https://a.test:8443"
    assert url_origin("") == ""
