"""Stores a bot's token and adds the bot and its person to the configuration: all or nothing.

The order is the secret, the file, and the row of the new version, which is the commit. A failure before the
row takes back what was stored. A crash in between leaves at most a secret that nothing uses, which the next
attempt uses again, or a config.json that the next start or `config apply` applies completely.
"""

import asyncio
import contextlib
from pathlib import Path

import structlog
from pydantic import JsonValue, ValidationError

from choir_common.errors import ChoirError, Conflict, InvalidRequest, NotFound
from choir_common.eventlog.chain import canonical_json
from choir_common.i18n import _
from choir_common.secret_file import edit_secret_file, read_secret_file
from choir_common.wire.config import Config
from choir_common.wire.model import JsonObject
from choir_common.wire.telegram import ConnectTelegram
from choir_common.wire.validation_messages import error_messages
from choir_control.agents.rollout.config_staging import ConfigStaging
from choir_control.approvals.proposals.config_proposal import ConfigFile, document_digest
from choir_control.approvals.proposals.merge_patch import apply_merge_patch
from choir_control.configuration.current import ConfigService
from choir_control.configuration.diff import diff_configs
from choir_control.configuration.secrets.reload import SecretReloader
from choir_control.conversations.telegram.entries import (
    EntryNames,
    choose_names,
    find_gateway_of,
    make_patch,
)

log = structlog.get_logger("choir.telegram")


class TelegramBinder:
    """Writer of the configuration and the secret of a new bot."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        config_file: ConfigFile,
        staging: ConfigStaging,
        secrets_json: Path,
        reloader: SecretReloader,
    ) -> None:
        self._configuration = configuration
        self._file = config_file
        self._staging = staging
        self._secrets_json = secrets_json
        self._reloader = reloader
        self._lock = asyncio.Lock()

    async def check(self, request: ConnectTelegram) -> None:
        """Check that `bind` would be possible now, before a person is asked to do anything.

        Raises NotFound for an unknown agent or person, Conflict if the bot is connected already or
        config.json has changes that were not applied, and the errors of reading both files.
        """
        snapshot = self._configuration.current
        snapshot.agent(request.agent_id)
        if request.person is not None and request.person not in snapshot.config.people:
            people = ", ".join(sorted(snapshot.config.people)) or _("none")
            raise NotFound(
                _("There is no person {person!r}. `people` has: {people}.").format(
                    person=request.person, people=people
                )
            )
        gateway = find_gateway_of(snapshot.config, await self._stored_secrets(), request.token)
        if gateway is not None:
            raise Conflict(
                _(
                    "This bot is connected already: gateways.{gateway} in config.json. A new token for it is "
                    "stored with `choirctl secret set {secret}` and `choirctl secret apply`."
                ).format(gateway=gateway, secret=snapshot.config.gateways[gateway].secret)
            )
        candidate = await asyncio.to_thread(self._configuration.read)
        changes = diff_configs(self._configuration.declared, candidate.config)
        if changes:
            raise Conflict(
                _(
                    "config.json has changes that are not applied ({changes}). Apply them first: `choirctl "
                    "config load`, then `choirctl config apply`."
                ).format(changes=changes[0].path)
            )

    async def bind(self, request: ConnectTelegram, user_id: str) -> EntryNames:
        """Store the token, add the entries and apply them; return their names.

        Raises the errors of `check`, of writing both files, and of applying. Nothing is changed then, unless
        the message says what remains.
        """
        async with self._lock:
            await self.check(request)
            names = choose_names(
                self._configuration.current.config, await self._stored_secrets(), request.token
            )
            before = await self._file.read()
            patch = make_patch(self._configuration.current.config, names, request, user_id)
            after = _checked(apply_merge_patch(before, patch))
            try:
                await self._write(names, request.token, before, after)
            except BaseException as error:
                remains = await self._take_back(names, before, after)
                if remains and isinstance(error, ChoirError):
                    raise type(error)(f"{error.message} {' '.join(remains)}") from error
                raise
        log.info("bot connected", gateway=names.gateway, dm=names.dm, agent=request.agent_id)
        return names

    async def _stored_secrets(self) -> dict[str, str]:
        try:
            return await asyncio.to_thread(read_secret_file, self._secrets_json)
        except NotFound:
            return {}

    async def _write(
        self, names: EntryNames, token: str, before: JsonObject, after: JsonObject
    ) -> None:
        await asyncio.to_thread(_set_secret, self._secrets_json, names.secret, token)
        await self._reloader.apply()
        await self._file.replace(document_digest(before), after)
        await self._staging.apply_file(Config.model_validate_json(canonical_json(after)))

    async def _take_back(
        self, names: EntryNames, before: JsonObject, after: JsonObject
    ) -> list[str]:
        """Restore both files; return what could not be restored, as sentences."""
        remains = []
        try:
            if document_digest(await self._file.read()) == document_digest(after):
                await self._file.replace(document_digest(after), before)
        except ChoirError as error:
            remains.append(
                f"config.json still has gateways.{names.gateway} and dms.{names.dm}, which are not "
                f"applied: remove them ({error.message})"
            )
        try:
            await asyncio.to_thread(_set_secret, self._secrets_json, names.secret, None)
        except ChoirError as error:
            remains.append(
                f"The token is still stored: `choirctl secret delete {names.secret}` ({error.message})"
            )
        # without a database the values in memory stay until the next apply; nothing uses them
        with contextlib.suppress(ChoirError):
            await self._reloader.apply()
        return remains


def _set_secret(path: Path, name: str, value: str | None) -> None:
    """Set a secret, or delete it if `value` is None."""
    with edit_secret_file(path) as values:
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value


def _checked(document: JsonValue) -> JsonObject:
    """Return the document if it is a valid config.json; raises InvalidRequest."""
    if not isinstance(document, dict):
        raise InvalidRequest(_("config.json is not a JSON object; correct it first."))
    try:
        Config.model_validate_json(canonical_json(document))
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "the file")[:5])
        raise InvalidRequest(
            _("config.json would be invalid: {faults}.").format(faults=faults)
        ) from None
    return document
