"""Proposal type `config_change`: apply exactly the shown change to config.json.

Called by `ask` and `carry_out`. The file is replaced atomically, then applied in the same way as an
operator's edit.
"""

from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from choir_common.errors import BadInput, Conflict
from choir_common.eventlog.chain import canonical
from choir_common.wire.config import Config
from choir_common.wire.faults import faults_of
from choir_common.wire.json import JsonObject
from choir_common.wire.proposals import leaves, may_be_proposed
from choir_control.approvals.store import Approval
from choir_control.configuration.check import faults
from choir_control.configuration.current import Configuration
from choir_control.evolution.carrier import Stale
from choir_control.evolution.config_file import ConfigFile, digest_of_document
from choir_control.evolution.merge_patch import differences, holds, merged, taken_back

PutInForce = Callable[[Config], Awaitable[int]]
"""Reads config.json and applies it if it equals this configuration; returns the version."""


class ConfigChange:
    """Requests of type `config_change`."""

    def __init__(
        self, configuration: Configuration, file: ConfigFile, put_in_force: PutInForce
    ) -> None:
        self._configuration = configuration
        self._file = file
        self._put_in_force = put_in_force

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return each value before and after; raises BadInput for invalid or forbidden changes."""
        patch = _patch_of(payload)
        for path, _ in leaves(patch):
            if not may_be_proposed(path, agent_id):
                raise BadInput(f"{'.'.join(path)[:200]}: an agent cannot propose to change this.")
        now = await self._file.read()
        after = self._checked(merged(now, patch))
        return {
            "config": digest_of_document(now),
            "version": self._configuration.current.version,
            "changes": list(differences(now, after)),
        }

    async def plan(self, asked: Approval) -> JsonObject:
        """Compare the file and the active version with what was shown; return the new file."""
        now = await self._file.read()
        after = self._checked(merged(now, _patch_of(asked.payload)))
        shown = asked.basis
        if shown.get("config") != digest_of_document(now):
            raise Stale("config.json has been edited since this was shown.")
        if shown.get("version") != self._configuration.current.version:
            raise Stale("Another version of the configuration is in force since this was shown.")
        changes: JsonObject = {"changes": list(differences(now, after))}
        if canonical(changes) != canonical({"changes": shown.get("changes")}):
            raise Stale("It would change something else than was shown.")
        return _replacement(now, after)

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        """Replace the file unless it is already replaced, then apply it."""
        document = plan["document"]
        if not isinstance(document, dict):
            raise BadInput("The plan holds no configuration.")
        now = digest_of_document(await self._file.read())
        # equal after a crash that followed the replacement: only apply it again
        if now != plan["after"]:
            if now != plan["before"]:
                raise Stale("config.json has been edited meanwhile.")
            await self._file.replace(now, document)
        version = await self._put_in_force(Config.model_validate_json(canonical(document)))
        return f"config.json is changed, and version {version} is in force."

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Restore each changed value that is still in place; other edits since then stay."""
        now = await self._file.read()
        found = asked.basis.get("changes")
        changes = (
            [change for change in found if isinstance(change, dict)]
            if isinstance(found, list)
            else []
        )
        # Only the changed places are compared, so unrelated edits since then stay.
        for change in changes:
            if not holds(now, change):
                raise Conflict(
                    f"{'.'.join(map(str, _path(change)))} has been changed again since; edit config.json "
                    "by hand."
                )
        return _replacement(now, self._checked(taken_back(now, changes)))

    def _checked(self, document: object) -> JsonObject:
        """Return the document if it is a valid configuration; raises BadInput with the reasons."""
        if not isinstance(document, dict):
            raise BadInput("It would leave no configuration.")
        try:
            config = Config.model_validate_json(canonical(document))
        except ValidationError as error:
            words = "; ".join(faults_of(error, "the file")[:5])
            raise BadInput(f"config.json would not fit: {words}.") from None
        # the deployment's own default model is active without being in the file
        models = {**self._configuration.current.config.models, **config.models}
        found = faults(config.model_copy(update={"models": models}))
        if found:
            raise BadInput(f"config.json would not be usable: {'; '.join(found[:5])}.")
        return document


def _patch_of(payload: JsonObject) -> JsonObject:
    patch = payload.get("patch")
    if not isinstance(patch, dict) or not patch:
        raise BadInput("patch: a JSON merge patch that changes something is needed.")
    return patch


def _path(change: JsonObject) -> list[object]:
    path = change.get("path")
    return [*path] if isinstance(path, list) else []


def _replacement(now: JsonObject, after: JsonObject) -> JsonObject:
    return {
        "before": digest_of_document(now),
        "after": digest_of_document(after),
        "document": after,
    }
