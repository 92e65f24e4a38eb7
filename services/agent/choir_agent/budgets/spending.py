"""What the agent has spent today, for rules of the policy; only control knows the prices."""

from decimal import Decimal

import structlog
from pydantic import ValidationError

from choir_agent.control_client.control_client import ControlClient
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.ids import new_id
from choir_common.policy import has_money_rules
from choir_common.wire.money import SPENT_TOOL, SpentToday
from choir_common.wire.policy import AgentPolicy
from choir_common.wire.rpc import HostToolRequest

log = structlog.get_logger("choir.agent.budget")

TIMEOUT_S = 5.0


class SpendingReader:
    """Client for control's ledger."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    async def spent_today(self, policy: AgentPolicy) -> Decimal | None:
        """Return US dollars; None if no rule depends on them, or if control does not answer.

        Raises Fenced or Unauthorized if the session is no longer ours.
        """
        if not has_money_rules(policy.rules):
            return None
        request = HostToolRequest(tool_name=SPENT_TOOL, call_id=new_id("call"), input={})
        try:
            answer = await self._control.use_host_tool(request, TIMEOUT_S)
            return SpentToday.model_validate(answer.output, strict=False).usd
        except (Fenced, Unauthorized):
            raise
        except (ChoirError, ValidationError) as error:
            log.warning("spending not read; rules that ask or deny hold", error=str(error))
            return None
