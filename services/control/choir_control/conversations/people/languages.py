"""The languages in which Choir itself talks to people: what their apps say, and what they choose."""

import asyncio
from dataclasses import replace

import structlog

from choir_common.errors import Forbidden
from choir_common.i18n import _
from choir_control.configuration.current import ConfigService
from choir_control.configuration.people import UserLanguage
from choir_control.conversations.people.language_store import LanguageStore

log = structlog.get_logger("choir.people")


class UserLanguages:
    """Service that keeps the languages of people, and of conversations that are nobody's."""

    def __init__(self, store: LanguageStore, *, configuration: ConfigService) -> None:
        self._store = store
        self._configuration = configuration
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Put the stored languages in force."""
        self._configuration.set_languages(await self._store.read_all())

    async def note_app(self, dm: str, tag: str) -> None:
        """Keep the language of a user's app; a group has none, and an empty tag says nothing.

        Raises Unavailable.
        """
        people = self._configuration.current.people
        if not tag or people.is_group(dm) or dm not in people.config.dms:
            return
        if people.user_language(dm).app != tag:
            await self._change(dm, app=tag)

    async def choose(self, dm: str, tag: str) -> None:
        """Use a language for the person of a conversation, or for a group; an empty tag ends the choice.

        Raises Forbidden for a conversation that is not in config.json, and Unavailable.
        """
        if dm not in self._configuration.current.config.dms:
            raise Forbidden(_("This conversation is not in config.json."))
        await self._change(dm, choice=tag)
        log.info("language chosen", dm=dm, language=tag)

    async def _change(self, dm: str, **languages: str) -> None:
        async with self._lock:
            people = self._configuration.current.people
            changed: UserLanguage = replace(people.user_language(dm), **languages)
            await self._store.put(people.language_owner(dm), changed)
            await self.load()
