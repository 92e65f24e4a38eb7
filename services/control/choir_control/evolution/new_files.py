"""Proposal types `skill` and `tool`: commit the proposed files to the agent's repository.

Called by `ask` and `carry_out`. A skill is committed complete. Of a tool only the description is
committed, to a path from which no agent loads tools: a human writes the program and then moves the
manifest next to it.
"""

import re
from collections.abc import Callable, Mapping

import orjson
from pydantic import ValidationError

from choir_common.errors import BadInput, Conflict
from choir_common.wire.faults import faults_of
from choir_common.wire.json import JsonObject
from choir_common.wire.tool_manifest import ToolManifestFile
from choir_control.approvals.store import Approval
from choir_control.evolution.benches import Benches
from choir_control.evolution.carrier import Stale
from choir_control.evolution.landing import check_target, land_plan, plan_of, plan_taking_back

Files = Callable[[JsonObject], Mapping[str, str]]

_SKILL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_README = """# {name}: a proposed tool

Choir committed this description after a human approved it. There is no program: a human writes it.

1. Write the executable `tools/{name}` in this repository: JSON on standard input, JSON on standard output.
2. Move `proposed/tools/{name}.json` to `tools/{name}.json`, and correct it where the program differs.
3. `choirctl agent build AGENT`, then `choirctl agent update AGENT`.

## What it shall do, in the agent's words

{behaviour}

## Why

{reason}
"""


class NewFiles:
    """Requests of types `skill` and `tool`."""

    def __init__(self, benches: Benches, files: Files) -> None:
        self._benches = benches
        self._files = files

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return the files that would be committed, and the target; empty without a repository."""
        source = self._benches.source(agent_id)
        if source is None:
            return {}
        return {"url": source.url, "ref": source.ref, "files": {**self._files(payload)}}

    async def plan(self, asked: Approval) -> JsonObject:
        """Compare the target with what was shown; create the commit."""
        async with self._benches.of(asked.agent_id) as bench:
            check_target(bench, asked.basis)
            files = {**self._files(asked.payload)}
            if files != asked.basis.get("files"):
                raise Stale("It would commit other files than were shown.")
            base = await bench.fetch(bench.source.ref)
            for path, text in files.items():
                # A file with the same content is no conflict.
                if await bench.present(base, path) not in (None, text.encode()):
                    raise Conflict(
                        f"{path} is in {bench.source.spoken} already, and says something else."
                    )
            tree = await bench.tree_with(base, files)
            words = (
                f"Add {', '.join(files)}\n\nProposed by {asked.agent_id}, approved as {asked.approval_id} "
                f"by {asked.decided_by}."
            )
            made = await bench.commit(tree, (base,), words, self._benches.signature(asked))
            return plan_of(bench, base, made)

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        """Push the commit, unless it is already on the ref."""
        async with self._benches.of(asked.agent_id) as bench:
            return await land_plan(bench, plan)

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Plan the return to the tree before the commit."""
        return await plan_taking_back(self._benches, asked, plan)


def files_of_skill(payload: JsonObject) -> Mapping[str, str]:
    """Return the file of a proposed skill; raises BadInput when its name is invalid."""
    spec = payload.get("spec")
    name = spec.get("name") if isinstance(spec, dict) else None
    if not isinstance(name, str) or not _SKILL.fullmatch(name):
        raise BadInput("spec.name: a name of small letters, digits, - and _ is needed.")
    return {f"skills/{name}.json": _pretty(spec)}


def files_of_tool(payload: JsonObject) -> Mapping[str, str]:
    """Return the manifest and README of a proposed tool; raises BadInput for an invalid manifest."""
    manifest = payload.get("manifest")
    try:
        read = ToolManifestFile.model_validate_json(orjson.dumps(manifest))
    except ValidationError as error:
        raise BadInput(f"manifest: {faults_of(error, 'the file')[0]}.") from None
    name = read.llm.name
    if name.startswith("choir.") or read.runtime.exec_path is not None:
        raise BadInput("manifest: a name in `choir.` or a path of a program cannot be proposed.")
    words = {key: str(payload.get(key, "")) for key in ("behaviour", "reason")}
    return {
        f"proposed/tools/{name}.json": _pretty(manifest),
        f"proposed/tools/{name}.md": _README.format(name=name, **words),
    }


def _pretty(document: object) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"
