"""Proposal type `repo_change`: merge exactly the commit that was shown.

Called by `ask` and `carry_out`. The agent has pushed `proposal/<session>/<slug>`; the human is shown
the complete difference that the merge would make. A merged branch is deleted, a rejected one stays.
"""

import re

from choir_common.errors import BadInput, ChoirError
from choir_common.wire.json import JsonObject
from choir_control.approvals.store import Approval
from choir_control.evolution.benches import Benches
from choir_control.evolution.carrier import Stale
from choir_control.evolution.landing import check_target, land_plan, plan_of, plan_taking_back
from choir_control.evolution.workbench import Workbench

SLUG = r"[a-z0-9][a-z0-9-]{0,60}"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class RepoChange:
    """Requests of type `repo_change`."""

    def __init__(self, benches: Benches) -> None:
        self._benches = benches

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the merge would change; raises BadInput if it is impossible to merge or show."""
        branch, commit = payload.get("branch"), payload.get("commit")
        # only branches of the requesting session
        form = rf"proposal/{re.escape(session_id)}/{SLUG}"
        if not isinstance(branch, str) or not re.fullmatch(form, branch):
            raise BadInput(f"branch: proposal/{session_id}/<words-like-these> is needed.")
        # The full id: a branch or a short id could refer to another commit later.
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise BadInput("commit: the whole id of the branch's newest commit is needed.")
        async with self._benches.of(agent_id) as bench:
            return await _look(bench, branch, commit)

    async def plan(self, asked: Approval) -> JsonObject:
        """Compare branch, ref and merge result with what was shown; create the commit."""
        async with self._benches.of(asked.agent_id) as bench:
            check_target(bench, asked.basis)
            branch, commit = str(asked.payload["branch"]), str(asked.payload["commit"])
            try:
                now = await _look(bench, branch, commit)
            except BadInput as error:
                raise Stale(error.message) from None
            if now != asked.basis:
                raise Stale(f"{bench.source.ref} of {bench.source.spoken} is not what it was.")
            return await self._planned(bench, asked)

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        """Push the commit, unless it is already on the ref; delete the merged branch."""
        async with self._benches.of(asked.agent_id) as bench:
            said = await land_plan(bench, plan)
            return f"{said} {await _tidy(bench, asked)}".rstrip()

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Plan the return to the tree before the merge."""
        return await plan_taking_back(self._benches, asked, plan)

    async def _planned(self, bench: Workbench, asked: Approval) -> JsonObject:
        base, commit = str(asked.basis["base"]), str(asked.payload["commit"])
        if asked.basis["fast_forward"]:
            return plan_of(bench, base, commit)
        words = f"Merge {asked.payload['branch']}\n\nApproved as {asked.approval_id} by {asked.decided_by}."
        made = await bench.commit(
            str(asked.basis["tree"]), (base, commit), words, self._benches.signature(asked)
        )
        return plan_of(bench, base, made)


async def _tidy(bench: Workbench, asked: Approval) -> str:
    """Delete the merged branch, unless it has new commits; return a text if that fails."""
    branch, commit = str(asked.payload["branch"]), str(asked.payload["commit"])
    try:
        if await bench.tip(branch) == commit:
            await bench.delete(branch, commit)
    except ChoirError as error:
        # the approved change is applied; a leftover branch does no harm
        return f"{branch} could not be deleted: {error.message}"
    return ""


async def _look(bench: Workbench, branch: str, commit: str) -> JsonObject:
    found = await bench.fetch(branch)
    if found != commit:
        raise BadInput(f"{branch} is at {found}, not at {commit}.")
    base = await bench.fetch(bench.source.ref)
    merge = await bench.merge(base, commit)
    shown = await bench.shown(base, merge.tree)
    return {
        "url": bench.source.url,
        "ref": bench.source.ref,
        "base": base,
        "tree": merge.tree,
        "fast_forward": merge.fast_forward,
        **shown,
    }
