"""Read config.json, and replace it atomically if it is unchanged. Called by `config_change`."""

import asyncio
import hashlib
import os
import secrets
from pathlib import Path

import orjson

from choir_common.errors import BadInput, Unavailable
from choir_common.eventlog.chain import canonical
from choir_common.wire.json import JsonObject
from choir_control.evolution.carrier import Stale

MAX_BYTES = 4_000_000


def digest_of_document(document: JsonObject) -> str:
    """Return the SHA-256 of a document's canonical JSON, so that formatting does not matter."""
    return hashlib.sha256(canonical(document)).hexdigest()


class ConfigFile:
    """The operator's config.json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def read(self) -> JsonObject:
        """Return the parsed file; raises BadInput when it is not a JSON object."""
        return await asyncio.to_thread(self._read)

    async def replace(self, expected: str, document: JsonObject) -> None:
        """Replace the file atomically and sync it; raises Stale when its digest is not `expected`.

        A cancellation waits for the write: a write that finished unattended would look like someone
        else's edit.
        """
        writing = asyncio.ensure_future(asyncio.to_thread(self._replace, expected, document))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.gather(writing, return_exceptions=True)
            raise

    def _read(self) -> JsonObject:
        try:
            with self.path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            found = orjson.loads(text) if len(text) <= MAX_BYTES else None
        except OSError as error:
            raise Unavailable(f"Cannot read {self.path}: {error.strerror}.") from error
        except ValueError as error:
            raise BadInput(f"{self.path} is not JSON now ({error}); correct it first.") from None
        if not isinstance(found, dict):
            raise BadInput(f"{self.path} holds no JSON object of a bearable size.")
        return found

    def _replace(self, expected: str, document: JsonObject) -> None:
        partial = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            mode = self.path.stat().st_mode & 0o777
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # The last moment possible, so that an operator's edit is not overwritten.
            if digest_of_document(self._read()) != expected:
                raise Stale(f"{self.path} has been edited meanwhile.")
            partial.replace(self.path)
            # a rename is durable only when its directory is synced
            _sync(self.path.parent)
        except OSError as error:
            raise Unavailable(f"Cannot write {self.path}: {error.strerror}.") from error
        finally:
            partial.unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
