"""Proposal types `skill` and `tool`: commit the proposed files to the agent's repository.

A skill is committed complete. Of a tool only the description is committed, to a path from which no
agent loads tools: a human writes the program and then moves the manifest next to it.
"""

import re
from collections.abc import Callable, Mapping

import orjson
from pydantic import ValidationError

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_common.wire.repository_files import ToolManifestFile
from choir_common.wire.validation_messages import error_messages
from choir_control.approvals.proposals.clone_cache import CloneCache
from choir_control.approvals.proposals.proposal_type import StaleProposal
from choir_control.approvals.proposals.push_plan import (
    check_same_target,
    execute_push_plan,
    make_push_plan,
    make_rollback_plan,
)
from choir_control.approvals.store import Approval

MakeFiles = Callable[[JsonObject], Mapping[str, str]]
"""Pure function that turns a request's payload into files: the only difference between the types."""

_SKILL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_README = """# {name}: a proposed tool

Choir committed this description after a human approved it. There is no program: a human writes it.

1. Write the executable `tools/{name}` in this repository: JSON on standard input, JSON on standard output.
2. Move `proposed/tools/{name}.json` to `tools/{name}.json`, and correct it where the program differs.
3. `choirctl agent build AGENT`, then `choirctl agent update AGENT`.

## Intended behavior, as the agent described it

{behaviour}

## Why

{reason}
"""


class FileProposal:
    """Requests of types `skill` and `tool`."""

    def __init__(self, clones: CloneCache, make_files: MakeFiles) -> None:
        self._clones = clones
        self._make_files = make_files

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return the files that would be committed, and the target; empty without a repository."""
        source = self._clones.source_of_agent(agent_id)
        if source is None:
            return {}
        return {"url": source.url, "ref": source.ref, "files": {**self._make_files(payload)}}

    async def make_plan(self, approval: Approval) -> JsonObject:
        """Compare the target with what was shown; create the commit."""
        async with self._clones.lock_clone(approval.agent_id) as clone:
            check_same_target(clone, approval.basis)
            files = {**self._make_files(approval.payload)}
            if files != approval.basis.get("files"):
                raise StaleProposal(_("The commit would contain other files than were shown."))
            base = await clone.fetch(clone.source.ref)
            for path, text in files.items():
                # A file with the same content is no conflict.
                if await clone.read_file(base, path) not in (None, text.encode()):
                    raise Conflict(
                        _("{path} is in {display_name} already, with other content.").format(
                            path=path, display_name=clone.source.display_name
                        )
                    )
            tree = await clone.write_tree_with(base, files)
            message = (
                f"Add {', '.join(files)}\n\nProposed by {approval.agent_id}, approved as "
                f"{approval.approval_id} by {approval.decided_by}."
            )
            commit = await clone.commit(
                tree, (base,), message, self._clones.commit_author(approval)
            )
            return make_push_plan(clone, base, commit)

    async def apply(self, approval: Approval, plan: JsonObject) -> str:
        """Push the commit, unless it is already on the ref."""
        async with self._clones.lock_clone(approval.agent_id) as clone:
            return await execute_push_plan(clone, plan)

    async def plan_rollback(self, approval: Approval, plan: JsonObject) -> JsonObject:
        """Plan the return to the tree before the commit."""
        return await make_rollback_plan(self._clones, approval, plan)


def make_skill_files(payload: JsonObject) -> Mapping[str, str]:
    """Return the file of a proposed skill; raises InvalidRequest when its name is invalid."""
    spec = payload.get("spec")
    name = spec.get("name") if isinstance(spec, dict) else None
    if not isinstance(name, str) or not _SKILL.fullmatch(name):
        raise InvalidRequest(_("spec.name: use lower-case letters, digits, - and _ only."))
    return {f"skills/{name}.json": _pretty(spec)}


def make_tool_files(payload: JsonObject) -> Mapping[str, str]:
    """Return the manifest and README of a proposed tool; raises InvalidRequest for an invalid manifest."""
    manifest = payload.get("manifest")
    try:
        manifest_file = ToolManifestFile.model_validate_json(orjson.dumps(manifest))
    except ValidationError as error:
        raise InvalidRequest(f"manifest: {error_messages(error, 'the file')[0]}.") from None
    name = manifest_file.llm.name
    if name.startswith("choir.") or manifest_file.runtime.exec_path is not None:
        raise InvalidRequest(
            _("manifest: a name starting with `choir.` and an exec_path cannot be proposed.")
        )
    texts = {key: str(payload.get(key, "")) for key in ("behaviour", "reason")}
    return {
        f"proposed/tools/{name}.json": _pretty(manifest),
        f"proposed/tools/{name}.md": _README.format(name=name, **texts),
    }


def _pretty(document: object) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"
