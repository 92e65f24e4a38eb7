"""The policy of config.json, applied to a checked call. See docs/design/policy.md."""

from datetime import UTC, datetime

from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.log.session_state import EDGE_LANE
from choir_agent.tools.model_view import model_name
from choir_common.policy import PolicyCall, decide, find_destinations
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy, PolicyDecision


def decide_call(policy: AgentPolicy, checked: CheckedCall, lane: str) -> PolicyDecision:
    """Return what the policy says about a call now."""
    tool, runtime = checked.tool.manifest.name, checked.tool.manifest.runtime
    call = PolicyCall(
        agent_id=policy.agent_id,
        tool=tool,
        lane="edge" if lane == EDGE_LANE else "core",
        role=policy.role,
        arguments=checked.arguments,
        path=checked.path,
        destinations=find_destinations(
            tool, checked.arguments, has_network=bool(runtime.executable_hash) and runtime.network
        ),
    )
    return decide(policy.rules, call, datetime.now(UTC), needs_approval=runtime.needs_approval)


def denial(tool: str, decision: PolicyDecision) -> JsonObject:
    """Return the error of a call that the policy denies."""
    why = f": {decision.why}" if decision.why else ""
    message = (
        f"The owner's policy denies this call of {model_name(tool)}{why}. Do not try to reach the same "
        "in another way; tell the user."
    )
    return {"code": "denied_by_policy", "message": message, "rule": decision.rule}
