"""Import the mail libraries when a mail tool is first used: they take 5 MB of memory.

Called by the mail tools; the only importer of `smtp` and `imap`. The import runs in a thread so
that it does not delay a heartbeat.
"""

import asyncio
import importlib
from typing import Protocol, cast

from choir_agent.tools.mail.account import MailAccount
from choir_agent.tools.mail.requests import MailQuery, MessageRequest
from choir_agent.tools.workspace import Workspace
from choir_common.wire.model import JsonObject


class Smtp(Protocol):
    """The module `smtp`."""

    async def deliver(
        self, account: MailAccount, workspace: Workspace, call_id: str, arguments: JsonObject
    ) -> JsonObject: ...


class Mailbox(Protocol):
    """The class `UpdateQueue` of the module `imap`."""

    async def list(self, query: MailQuery, limit: int) -> JsonObject: ...

    async def fetch(self, workspace: Workspace, extract: MessageRequest) -> JsonObject: ...


class Imap(Protocol):
    """The module `imap`."""

    def Mailbox(self, account: MailAccount, folder: str) -> Mailbox: ...  # noqa: N802 - a class


async def load_smtp() -> Smtp:
    """Return the module `smtp`."""
    return cast(Smtp, await asyncio.to_thread(importlib.import_module, f"{__package__}.smtp"))


async def load_imap() -> Imap:
    """Return the module `imap`."""
    return cast(Imap, await asyncio.to_thread(importlib.import_module, f"{__package__}.imap"))
