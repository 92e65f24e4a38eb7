"""Proposal type `repo_change`: merge exactly the commit that was shown.

The agent has pushed `proposal/<session>/<slug>`; the human is shown the complete difference that the
merge would make. A merged branch is deleted, a rejected one stays.
"""

import re

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
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

    def __init__(self, clones: CloneCache) -> None:
        self._clones = clones

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the merge would change; raises InvalidRequest if it is impossible to merge or show."""
        branch, commit = payload.get("branch"), payload.get("commit")
        # only branches of the requesting session
        form = rf"proposal/{re.escape(session_id)}/{SLUG}"
        if not isinstance(branch, str) or not re.fullmatch(form, branch):
            raise InvalidRequest(
                _("branch: proposal/{session_id}/<short-description> is required.").format(
                    session_id=session_id
                )
            )
        # The full id: a branch or a short id could refer to another commit later.
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise InvalidRequest(
                _("commit: the full id of the branch's newest commit is required.")
            )
        async with self._clones.lock_clone(agent_id) as clone:
            return await _describe_merge(clone, branch, commit)

    async def make_plan(self, approval: Approval) -> JsonObject:
        """Compare branch, ref and merge result with what was shown; create the commit."""
        async with self._clones.lock_clone(approval.agent_id) as clone:
            check_same_target(clone, approval.basis)
            branch, commit = str(approval.payload["branch"]), str(approval.payload["commit"])
            try:
                current_basis = await _describe_merge(clone, branch, commit)
            except InvalidRequest as error:
                raise StaleProposal(error.message) from None
            if current_basis != approval.basis:
                raise StaleProposal(
                    _("{ref} of {display_name} has changed since it was shown.").format(
                        ref=clone.source.ref, display_name=clone.source.display_name
                    )
                )
            return await self._planned(clone, approval)

    async def apply(self, approval: Approval, plan: JsonObject) -> str:
        """Push the commit, unless it is already on the ref; delete the merged branch."""
        async with self._clones.lock_clone(approval.agent_id) as clone:
            result = await execute_push_plan(clone, plan)
            return f"{result} {await _delete_branch(clone, approval)}".rstrip()

    async def plan_rollback(self, approval: Approval, plan: JsonObject) -> JsonObject:
        """Plan the return to the tree before the merge."""
        return await make_rollback_plan(self._clones, approval, plan)

    async def _planned(self, clone: CommitBuilder, approval: Approval) -> JsonObject:
        base, commit = str(approval.basis["base"]), str(approval.payload["commit"])
        if approval.basis["fast_forward"]:
            return make_push_plan(clone, base, commit)
        message = (
            f"Merge {approval.payload['branch']}\n\n"
            f"Approved as {approval.approval_id} by {approval.decided_by}."
        )
        merge = await clone.commit(
            str(approval.basis["tree"]),
            (base, commit),
            message,
            self._clones.commit_author(approval),
        )
        return make_push_plan(clone, base, merge)


async def _delete_branch(clone: CommitBuilder, approval: Approval) -> str:
    """Delete the merged branch, unless it has new commits; return a text if that fails."""
    branch, commit = str(approval.payload["branch"]), str(approval.payload["commit"])
    try:
        if await clone.remote_tip(branch) == commit:
            await clone.delete_branch(branch, commit)
    except ChoirError as error:
        # the approved change is applied; a leftover branch does no harm
        return _("{branch} could not be deleted: {error}").format(
            branch=branch, error=error.message
        )
    return ""


async def _describe_merge(clone: CommitBuilder, branch: str, commit: str) -> JsonObject:
    tip = await clone.fetch(branch)
    if tip != commit:
        raise InvalidRequest(
            _("{branch} is at {tip}, not at {commit}.").format(
                branch=branch, tip=tip, commit=commit
            )
        )
    base = await clone.fetch(clone.source.ref)
    merge = await clone.merge(base, commit)
    changes = await clone.describe_changes(base, merge.tree)
    return {
        "url": clone.source.url,
        "ref": clone.source.ref,
        "base": base,
        "tree": merge.tree,
        "fast_forward": merge.fast_forward,
        **changes,
    }
