"""The policy of config.json, applied to a checked call. See docs/design/policy.md."""

from dataclasses import dataclass
from datetime import UTC, datetime

from choir_agent.arbiter.rulings import CheckedCall, Question
from choir_agent.log.session_state import EDGE_LANE
from choir_agent.tools.model_view import model_name
from choir_common.policy import PolicyCall, decide, find_destinations
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy, PolicyDecision


@dataclass(frozen=True, slots=True)
class RuledCall:
    """What the owner's policy says about a call."""

    call: PolicyCall
    decision: PolicyDecision

    @property
    def is_allowed_by_owner(self) -> bool:
        """Whether a rule of config.json allows exactly the destinations that the call names.

        Grants are not known here: control answers the question at once if a grant covers the call.
        """
        return self.decision.action == "allow" and self.decision.names_destinations

    @property
    def question(self) -> Question | None:
        """What the policy wants a person to be asked, or None."""
        return Question(why=self.decision.why) if self.decision.action == "ask" else None

    @property
    def denial(self) -> JsonObject | None:
        """The error of a call that the policy denies, or None."""
        if self.decision.action != "deny":
            return None
        why = f": {self.decision.why}" if self.decision.why else ""
        message = (
            f"The owner's policy denies this call of {model_name(self.call.tool)}{why}. Do not try "
            "to reach the same in another way; tell the user."
        )
        return {"code": "denied_by_policy", "message": message, "rule": self.decision.rule}


def rule_call(policy: AgentPolicy, checked: CheckedCall, lane: str) -> RuledCall:
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
    needs_approval = runtime.needs_approval
    return RuledCall(
        call, decide(policy.rules, call, datetime.now(UTC), needs_approval=needs_approval)
    )
