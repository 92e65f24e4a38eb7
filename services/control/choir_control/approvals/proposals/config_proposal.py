"""Proposal type `config_change`: apply exactly the shown change to config.json.

The file is replaced atomically if it is unchanged, then staged and applied like an operator's edit.
"""

import asyncio
import hashlib
from pathlib import Path

import orjson
from pydantic import ValidationError

from choir_common.errors import Conflict, InvalidRequest, Unavailable
from choir_common.eventlog.chain import canonical_json
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.model import JsonObject
from choir_common.wire.proposable_settings import is_proposable, patch_leaves
from choir_common.wire.validation_messages import error_messages
from choir_control.agents.rollout.config_staging import ConfigStaging
from choir_control.approvals.proposals.merge_patch import (
    apply_merge_patch,
    is_still_applied,
    list_changes,
    revert_changes,
)
from choir_control.approvals.proposals.proposal_type import StaleProposal
from choir_control.approvals.store import Approval
from choir_control.configuration.current import ConfigService
from choir_control.configuration.file_replacement import replacing_file
from choir_control.configuration.validation import find_faults

MAX_BYTES = 4_000_000


def document_digest(document: JsonObject) -> str:
    """Return the SHA-256 of a document's canonical JSON, so that formatting does not matter."""
    return hashlib.sha256(canonical_json(document)).hexdigest()


class ConfigFile:
    """The operator's config.json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def read(self) -> JsonObject:
        """Return the parsed file; raises InvalidRequest when it is not a JSON object."""
        return await asyncio.to_thread(self._read)

    async def replace(self, expected: str, document: JsonObject) -> None:
        """Replace the file atomically and sync it; raises StaleProposal when its digest is not `expected`.

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
            document = orjson.loads(text) if len(text) <= MAX_BYTES else None
        except OSError as error:
            raise Unavailable(
                _("Cannot read {path}: {error}.").format(path=self.path, error=error.strerror)
            ) from error
        except ValueError as error:
            raise InvalidRequest(
                _("{path} is not valid JSON ({error}); correct it first.").format(
                    path=self.path, error=error
                )
            ) from None
        if not isinstance(document, dict):
            raise InvalidRequest(
                _("{path} is not a JSON object, or is too large.").format(path=self.path)
            )
        return document

    def _replace(self, expected: str, document: JsonObject) -> None:
        content = orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
        with replacing_file(self.path, content):
            if document_digest(self._read()) != expected:
                raise StaleProposal(_("{path} has been edited since.").format(path=self.path))


class ConfigApplier:
    """Applies config.json if it has the expected content."""

    def __init__(self, staging: ConfigStaging) -> None:
        self._staging = staging

    async def apply(self, expected: Config) -> int:
        """Return the active version; raises StaleProposal when the file has other content."""
        try:
            return await self._staging.apply_file(expected)
        except Conflict as error:
            raise StaleProposal(error.message) from None


class ConfigProposal:
    """Requests of type `config_change`."""

    def __init__(
        self, configuration: ConfigService, config_file: ConfigFile, config_applier: ConfigApplier
    ) -> None:
        self._configuration = configuration
        self._file = config_file
        self._config_applier = config_applier

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return each value before and after; raises InvalidRequest for invalid or forbidden changes."""
        patch = _patch_of(payload)
        for path, _value in patch_leaves(patch):
            if not is_proposable(path, agent_id):
                raise InvalidRequest(
                    _("{path}: an agent cannot propose to change this.").format(
                        path=".".join(path)[:200]
                    )
                )
        document = await self._file.read()
        after = self._checked(apply_merge_patch(document, patch))
        return {
            "config": document_digest(document),
            "version": self._configuration.current.version,
            "changes": list(list_changes(document, after)),
        }

    async def make_plan(self, approval: Approval) -> JsonObject:
        """Compare the file and the active version with what was shown; return the new file."""
        document = await self._file.read()
        after = self._checked(apply_merge_patch(document, _patch_of(approval.payload)))
        shown_basis = approval.basis
        if shown_basis.get("config") != document_digest(document):
            raise StaleProposal(_("config.json has been edited since this was shown."))
        if shown_basis.get("version") != self._configuration.current.version:
            raise StaleProposal(
                _("Another version of the configuration was applied since this was shown.")
            )
        changes: JsonObject = {"changes": list(list_changes(document, after))}
        if canonical_json(changes) != canonical_json({"changes": shown_basis.get("changes")}):
            raise StaleProposal(_("The change would differ from what was shown."))
        return _replacement(document, after)

    async def apply(self, approval: Approval, plan: JsonObject) -> str:
        """Replace the file unless it is already replaced, then apply it."""
        document = plan["document"]
        if not isinstance(document, dict):
            raise InvalidRequest(_("The plan contains no configuration."))
        digest = document_digest(await self._file.read())
        # equal after a crash that followed the replacement: only apply it again
        if digest != plan["after"]:
            if digest != plan["before"]:
                raise StaleProposal(_("config.json has been edited since the plan was made."))
            await self._file.replace(digest, document)
        version = await self._config_applier.apply(
            Config.model_validate_json(canonical_json(document))
        )
        return _("config.json is changed, and version {version} is active.").format(version=version)

    async def plan_rollback(self, approval: Approval, plan: JsonObject) -> JsonObject:
        """Restore each changed value that is still in place; other edits since then stay."""
        document = await self._file.read()
        change_list = approval.basis.get("changes")
        changes = (
            [change for change in change_list if isinstance(change, dict)]
            if isinstance(change_list, list)
            else []
        )
        # Only the changed places are compared, so unrelated edits since then stay.
        for change in changes:
            if not is_still_applied(document, change):
                raise Conflict(
                    _("{path} has been changed again since; edit config.json by hand.").format(
                        path=".".join(map(str, _path(change)))
                    )
                )
        return _replacement(document, self._checked(revert_changes(document, changes)))

    def _checked(self, document: object) -> JsonObject:
        """Return the document if it is a valid configuration; raises InvalidRequest with the reasons."""
        if not isinstance(document, dict):
            raise InvalidRequest(_("The result would not be a configuration."))
        try:
            config = Config.model_validate_json(canonical_json(document))
        except ValidationError as error:
            errors = "; ".join(error_messages(error, "the file")[:5])
            raise InvalidRequest(
                _("config.json would be invalid: {errors}.").format(errors=errors)
            ) from None
        # the deployment's own default model is active without being in the file
        models = {**self._configuration.current.config.models, **config.models}
        faults = find_faults(config.model_copy(update={"models": models}))
        if faults:
            raise InvalidRequest(
                _("config.json would not be usable: {faults}.").format(faults="; ".join(faults[:5]))
            )
        return document


def _patch_of(payload: JsonObject) -> JsonObject:
    patch = payload.get("patch")
    if not isinstance(patch, dict) or not patch:
        raise InvalidRequest(_("patch: a non-empty JSON merge patch is required."))
    return patch


def _path(change: JsonObject) -> list[object]:
    path = change.get("path")
    return [*path] if isinstance(path, list) else []


def _replacement(before: JsonObject, after: JsonObject) -> JsonObject:
    return {
        "before": document_digest(before),
        "after": document_digest(after),
        "document": after,
    }
