"""Proposal type `repo_change`: merge exactly the commit that was shown.

Called by `ask` and `run_operation`. The agent has pushed `proposal/<session>/<slug>`; the
human is shown
the complete difference that the merge would make. A merged branch is deleted, a rejected one stays.
"""

import re

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.wire.model import JsonObject
from choir_control.approvals.proposals.clone_cache import CloneCache
from choir_control.approvals.proposals.commit_builder import CommitBuilder
from choir_control.approvals.proposals.proposal_type import StaleProposal
from choir_control.approvals.proposals.push_plan import (
    check_same_target,
    execute_push_plan,
    make_push_plan,
    make_rollback_plan,
)
from choir_control.approvals.store import Approval

SLUG = r"[a-z0-9][a-z0-9-]{0,60}"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class RepoProposal:
    """Requests of type `repo_change`."""

    def __init__(self, benches: CloneCache) -> None:
        self._benches = benches

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the merge would change; raises InvalidRequest if it is impossible to merge or show."""
        branch, commit = payload.get("branch"), payload.get("commit")
        # only branches of the requesting session
        form = rf"proposal/{re.escape(session_id)}/{SLUG}"
        if not isinstance(branch, str) or not re.fullmatch(form, branch):
            raise InvalidRequest(f"branch: proposal/{session_id}/<words-like-these> is needed.")
        # The full id: a branch or a short id could refer to another commit later.
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise InvalidRequest("commit: the whole id of the branch's newest commit is needed.")
        async with self._benches.lock_clone(agent_id) as bench:
            return await _describe_merge(bench, branch, commit)

    async def make_plan(self, approval: Approval) -> JsonObject:
        """Compare branch, ref and merge result with what was shown; create the commit."""
        async with self._benches.lock_clone(approval.agent_id) as bench:
            check_same_target(bench, approval.basis)
            branch, commit = str(approval.payload["branch"]), str(approval.payload["commit"])
            try:
                now = await _describe_merge(bench, branch, commit)
            except InvalidRequest as error:
                raise StaleProposal(error.message) from None
            if now != approval.basis:
                raise StaleProposal(
                    f"{bench.source.ref} of {bench.source.display_name} is not what it was."
                )
            return await self._planned(bench, approval)

    async def apply(self, asked: Approval, plan: JsonObject) -> str:
        """Push the commit, unless it is already on the ref; delete the merged branch."""
        async with self._benches.lock_clone(asked.agent_id) as bench:
            said = await execute_push_plan(bench, plan)
            return f"{said} {await _delete_branch(bench, asked)}".rstrip()

    async def plan_rollback(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Plan the return to the tree before the merge."""
        return await make_rollback_plan(self._benches, asked, plan)

    async def _planned(self, bench: CommitBuilder, asked: Approval) -> JsonObject:
        base, commit = str(asked.basis["base"]), str(asked.payload["commit"])
        if asked.basis["fast_forward"]:
            return make_push_plan(bench, base, commit)
        words = f"Merge {asked.payload['branch']}\n\nApproved as {asked.approval_id} by {asked.decided_by}."
        made = await bench.commit(
            str(asked.basis["tree"]), (base, commit), words, self._benches.commit_author(asked)
        )
        return make_push_plan(bench, base, made)


async def _delete_branch(bench: CommitBuilder, asked: Approval) -> str:
    """Delete the merged branch, unless it has new commits; return a text if that fails."""
    branch, commit = str(asked.payload["branch"]), str(asked.payload["commit"])
    try:
        if await bench.remote_tip(branch) == commit:
            await bench.delete_branch(branch, commit)
    except ChoirError as error:
        # the approved change is applied; a leftover branch does no harm
        return f"{branch} could not be deleted: {error.message}"
    return ""


async def _describe_merge(bench: CommitBuilder, branch: str, commit: str) -> JsonObject:
    found = await bench.fetch(branch)
    if found != commit:
        raise InvalidRequest(f"{branch} is at {found}, not at {commit}.")
    base = await bench.fetch(bench.source.ref)
    merge = await bench.merge(base, commit)
    shown = await bench.describe_changes(base, merge.tree)
    return {
        "url": bench.source.url,
        "ref": bench.source.ref,
        "base": base,
        "tree": merge.tree,
        "fast_forward": merge.fast_forward,
        **shown,
    }
