"""The audit keys of this home, in their file and in a keyring that is kept equal to it."""

import asyncio
from pathlib import Path

from choir_common.errors import Forbidden, InvalidRequest, StartupError
from choir_common.eventlog.key_file import StoredKeys, add_key, load_keys, mark_published
from choir_common.eventlog.signature import AuditKeyring
from choir_common.i18n import _


class AuditKeyFile:
    """Reads and extends the file of audit keys."""

    def __init__(self, path: Path, keyring: AuditKeyring) -> None:
        self._path = path
        self._keyring = keyring

    async def load(self) -> bool:
        """Load the keys, making the first one; return True if an anchor over all logs is to be made.

        Raises StartupError if the file is damaged or others may open it.
        """
        try:
            file_keys = await asyncio.to_thread(load_keys, self._path)
        except (InvalidRequest, Forbidden, ValueError) as error:
            raise StartupError(
                _(
                    "{path} has no valid audit keys: {error}. Restore it from a backup. If it is lost, move "
                    "it away: choird makes a new key, and cannot check older signatures any more."
                ).format(path=self._path, error=error)
            ) from None
        self._use(file_keys)
        return file_keys.is_unpublished

    async def mark_published(self) -> None:
        """Record that the anchor over all logs is stored."""
        await asyncio.to_thread(mark_published, self._path)

    async def rotate(self) -> None:
        """Add a key, which signs from now on; the older ones still check."""
        self._use(await asyncio.to_thread(add_key, self._path))

    def _use(self, file_keys: StoredKeys) -> None:
        self._keyring.replace(file_keys.keys)
