"""What goes with an outbound message, as the table knows it and as the gateway is told. Pure."""

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import Attachment, SentFile


class SpooledFile(SentFile):
    """A file that was copied into the spool."""

    size: int = Field(ge=0)
    place: str = Field(pattern=r"^[0-9a-f]{64}/\d{1,3}$")
    """Below the spool."""

    @property
    def event_hash(self) -> str:
        """Return the event that sent it."""
        return self.place.partition("/")[0]


_FILES: TypeAdapter[tuple[SpooledFile, ...]] = TypeAdapter(tuple[SpooledFile, ...])


def read_files(text: str | None) -> tuple[SpooledFile, ...]:
    """Return what the column `files` holds."""
    return _FILES.validate_json(text) if text else ()


def write_files(files: tuple[SpooledFile, ...]) -> str | None:
    """Return what the column `files` is to hold; null without any."""
    return _FILES.dump_json(files).decode() if files else None


def attachments_of(files: tuple[SpooledFile, ...]) -> tuple[Attachment, ...]:
    """Return what the gateway is told: a file is asked for by its number."""
    return tuple(
        Attachment(name=file.name, kind=file.kind, mime=file.mime, size=file.size, ref=str(number))
        for number, file in enumerate(files)
    )
