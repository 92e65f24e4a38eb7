"""The policy of config.json, applied to a checked call. See docs/design/policy.md."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from choir_agent.arbiter.host_rule import NewHosts
from choir_agent.arbiter.rulings import CheckedCall, Question
from choir_agent.provenance.taint_rule import SendingCall, TaintRule
from choir_agent.tools.model_view import model_name
from choir_common.lanes import is_edge
from choir_common.policy import PolicyCall, decide, find_destinations
from choir_common.wire.grants import EVERY_SCOPE
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy, PolicyDecision
from choir_common.wire.provenance import LaneTaint
from choir_common.wire.rpc import MAX_WHY

CUT = "\n(The rest of this reason is cut; all of the call is shown.)"


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


def rule_call(
    policy: AgentPolicy,
    checked: CheckedCall,
    lane: str,
    *,
    spent_usd: Decimal | None = None,
    known_recipients: tuple[str, ...] = (),
) -> RuledCall:
    """Return what the policy says about a call now; the agent has spent `spent_usd` today.

    Mail and messages to `known_recipients` alone ask nothing by default.
    """
    tool, runtime = checked.tool.manifest.name, checked.tool.manifest.runtime
    call = PolicyCall(
        agent_id=policy.agent_id,
        tool=tool,
        lane="edge" if is_edge(lane) else "core",
        role=policy.role,
        arguments=checked.arguments,
        path=checked.path,
        destinations=find_destinations(
            tool, checked.arguments, has_network=bool(runtime.executable_hash) and runtime.network
        ),
        spent_usd=spent_usd,
        known_recipients=known_recipients,
    )
    needs_approval = runtime.needs_approval or checked.arguments.get(runtime.asks_with) is True
    return RuledCall(
        call, decide(policy.rules, call, datetime.now(UTC), needs_approval=needs_approval)
    )


def question_of_call(
    rule: TaintRule,
    ruled: RuledCall,
    checked: CheckedCall,
    *,
    lane: str,
    lane_taint: LaneTaint,
    new_hosts: NewHosts,
) -> Question | None:
    """Return what a person is asked: by the policy, about new hosts, by the taint rule, or by several."""
    policy_question = ruled.question
    if ruled.is_allowed_by_owner:
        return policy_question
    runtime = checked.tool.manifest.runtime
    sending = SendingCall(
        lane=lane,
        tool=checked.tool.manifest.name,
        flow=runtime.flow,
        arguments=checked.arguments,
        destinations=ruled.call.destinations,
        hosts=new_hosts.names,
        known_recipients=ruled.call.known_recipients,
    )
    sending_why = rule.question(sending, lane_taint) or ""
    if policy_question is None and not new_hosts.why and not sending_why:
        return None
    reasons = (
        policy_question.why if policy_question is not None else "",
        new_hosts.why,
        sending_why,
    )
    why = _shorten("\n".join(reason for reason in reasons if reason))
    if sending_why:
        # A yes of longer scope would answer for data that nobody has seen.
        return Question(why, scopes=("once",), grants="named", hosts=new_hosts.names)
    if policy_question is not None:
        return replace(policy_question, why=why, hosts=new_hosts.names)
    scopes = EVERY_SCOPE if new_hosts.names else ("once",)
    return Question(why, scopes=scopes, grants="hosts", hosts=new_hosts.names)


def _shorten(why: str) -> str:
    """Return a reason of the permitted length, which says so if it is cut."""
    return why if len(why) <= MAX_WHY else why[: MAX_WHY - len(CUT)] + CUT
