"""Models of an outbound message's files, in the table and for the gateway. Pure."""

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import Attachment, SentFile


class SpooledFile(SentFile):
    """A file that was copied to the spool."""

    size: int = Field(ge=0)
    place: str = Field(pattern=r"^[0-9a-f]{64}/\d{1,3}$")
    """Path of the copy, relative to the spool."""

    @property
    def event_hash(self) -> str:
        """Return the hash of the event that sent the file."""
        return self.place.partition("/")[0]


_FILES: TypeAdapter[tuple[SpooledFile, ...]] = TypeAdapter(tuple[SpooledFile, ...])


def read_files(text: str | None) -> tuple[SpooledFile, ...]:
    """Parse the column `files`."""
    return _FILES.validate_json(text) if text else ()


def write_files(files: tuple[SpooledFile, ...]) -> str | None:
    """Return the value of the column `files`; None if there are no files."""
    return _FILES.dump_json(files).decode() if files else None


def attachments_of(files: tuple[SpooledFile, ...]) -> tuple[Attachment, ...]:
    """Return the attachments for the gateway, which requests a file by its number."""
    return tuple(
        Attachment(name=file.name, kind=file.kind, mime=file.mime, size=file.size, ref=str(number))
        for number, file in enumerate(files)
    )
