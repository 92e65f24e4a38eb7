"""Push of a proposal's commit to the configured ref, and its rollback.

A plan names the commit that is expected on the ref and the new one.
"""

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_control.approvals.proposals.clone_cache import CloneCache
from choir_control.approvals.proposals.commit_builder import CommitBuilder, push_to_configured_ref
from choir_control.approvals.proposals.proposal_type import StaleProposal
from choir_control.approvals.store import Approval

COMMIT_CHARS = 12


def make_push_plan(clone: CommitBuilder, base: str, commit: str) -> JsonObject:
    """Return the plan that moves the configured ref of this repository from `base` to `commit`."""
    return {"url": clone.source.url, "ref": clone.source.ref, "base": base, "commit": commit}


def check_same_target(clone: CommitBuilder, basis: JsonObject) -> None:
    """Raise Stale when another repository or ref is configured now."""
    if (basis.get("url"), basis.get("ref")) != (clone.source.url, clone.source.ref):
        raise StaleProposal(_("Another repository or ref is configured since this was shown."))


async def execute_push_plan(clone: CommitBuilder, plan: JsonObject) -> str:
    """Execute the plan unless it is already executed; raises StaleProposal when the ref has other commits."""
    check_same_target(clone, plan)
    commit = str(plan["commit"])
    if not await push_to_configured_ref(clone, commit, str(plan["base"])):
        raise StaleProposal(
            _("{ref} of {display_name} has new commits.").format(
                ref=clone.source.ref, display_name=clone.source.display_name
            )
        )
    return _("{ref} of {name} is at {commit}.").format(
        ref=clone.source.ref, name=clone.source.display_name, commit=commit[:COMMIT_CHARS]
    )


async def make_rollback_plan(
    clone_cache: CloneCache, approval: Approval, plan: JsonObject
) -> JsonObject:
    """Plan a commit that restores the previous tree; raises Conflict when newer commits exist."""
    async with clone_cache.lock_clone(approval.agent_id) as clone:
        check_same_target(clone, plan)
        base, commit = str(plan["base"]), str(plan["commit"])
        if await clone.fetch(clone.source.ref) != commit:
            raise Conflict(
                _("Newer commits depend on {commit} in {display_name}; revert it with git.").format(
                    commit=commit[:COMMIT_CHARS], display_name=clone.source.display_name
                )
            )
        message = f"Roll back {approval.approval_id}\n\nThe tree is the one of {base}."
        rollback = await clone.commit(base, (commit,), message, clone_cache.commit_author(approval))
        return make_push_plan(clone, commit, rollback)
