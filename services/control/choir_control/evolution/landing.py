"""Push of a proposal's commit to the configured ref, and its rollback.

Used by `repo_change` and `new_files`. A plan names the commit that is expected on the ref and the new
one.
"""

from choir_common.errors import Conflict
from choir_common.wire.json import JsonObject
from choir_control.approvals.store import Approval
from choir_control.evolution.benches import Benches
from choir_control.evolution.carrier import Stale
from choir_control.evolution.workbench import Workbench, land

SHORT = 12


def plan_of(bench: Workbench, base: str, commit: str) -> JsonObject:
    """Return the plan that moves the configured ref of this repository from `base` to `commit`."""
    return {"url": bench.source.url, "ref": bench.source.ref, "base": base, "commit": commit}


def check_target(bench: Workbench, said: JsonObject) -> None:
    """Raise Stale when another repository or ref is configured now."""
    if (said.get("url"), said.get("ref")) != (bench.source.url, bench.source.ref):
        raise Stale("Another repository or ref is configured since this was shown.")


async def land_plan(bench: Workbench, plan: JsonObject) -> str:
    """Execute the plan unless it is already executed; raises Stale when the ref has other commits."""
    check_target(bench, plan)
    commit = str(plan["commit"])
    if not await land(bench, commit, str(plan["base"])):
        raise Stale(f"{bench.source.ref} of {bench.source.spoken} has moved on meanwhile.")
    return f"{bench.source.ref} of {bench.source.spoken} is at {commit[:SHORT]}."


async def plan_taking_back(benches: Benches, asked: Approval, plan: JsonObject) -> JsonObject:
    """Plan a commit that restores the previous tree; raises Conflict when newer commits exist."""
    async with benches.of(asked.agent_id) as bench:
        check_target(bench, plan)
        base, commit = str(plan["base"]), str(plan["commit"])
        if await bench.fetch(bench.source.ref) != commit:
            raise Conflict(
                f"Other commits stand on {commit[:SHORT]} in {bench.source.spoken}; take it back with git."
            )
        words = f"Take back {asked.approval_id}\n\nThe tree is that of {base}."
        back = await bench.commit(base, (commit,), words, benches.signature(asked))
        return plan_of(bench, commit, back)
