"""Handlers of the approval commands. `ApprovalService` decides. Rules: `docs/design/approvals.md`.

A number refers to the list this conversation was last shown. The decision applies to the digest that
was shown.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from choir_common.approvals import request_lines
from choir_common.errors import InvalidRequest, NotFound
from choir_common.grants import describe_grant, parse_days, parse_scope
from choir_common.i18n import _, join
from choir_common.mcp_forms import read_typed
from choir_common.wire.grants import EVERY_SCOPE
from choir_common.wire.rpc import WITHOUT_EFFECT
from choir_control.approvals.server_questions import NO_ANSWER, Answer
from choir_control.approvals.server_questions import REQUEST_TYPE as QUESTION
from choir_control.approvals.service import ONCE, GrantChoice, no_request_text
from choir_control.approvals.store import Approval, Verdict
from choir_control.approvals.texts import (
    TOO_LATE,
    format_details,
    format_page,
    requests_text,
)
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.dialogue import OpenQuestion, ShownApproval
from choir_control.conversations.commands.spec import CommandCall

MAX_LISTED = 500
MAX_SCOPE_WORDS = 2
"""A scope and a lifetime."""
DISMISS = "dismiss"
"""Closes a server's question without an answer."""


async def list_approvals(context: CommandContext, call: CommandCall) -> str:
    """List pending requests: of this conversation with its agent, or of all in an admin conversation.

    With an id or a number, show that request and exactly what it would change.
    """
    reference = call.arguments.get("id")
    if reference is not None:
        approval = await context.approval_service.find(
            (await _find_shown(context, call, reference)).approval_id
        )
        content = (approval.request_type, approval.payload, approval.basis)
        lines = await asyncio.to_thread(request_lines, *content)
        return format_details(approval.approval_id, approval.state, _summary(approval), lines)
    pending = await _list_pending(context, call)
    if not pending:
        return _("No request is pending.")
    return _numbered_list(
        context, call, pending, _("/approve 1 approves the first, /reject 1 rejects it.")
    )


async def approve(context: CommandContext, call: CommandCall) -> str:
    """Approve the named request, or the only pending one, for later calls as well if a scope is named.

    What follows the id of a server's question is the answer. While pages of it were not shown in this
    conversation, show the next one instead.
    """
    return await _decide(context, call, "approved")


async def reject(context: CommandContext, call: CommandCall) -> str:
    """Reject the named request, or the only pending one; `dismiss` closes a server's question."""
    return await _decide(context, call, "rejected")


async def list_grants(context: CommandContext, call: CommandCall) -> str:
    """List the yeses that cover later calls: of this conversation, or of all agents for an admin."""
    agent_id = None if call.is_admin else call.bound_agent_id or ""
    grants = await context.grants.list_active(agent_id, call.further_dm)
    lines = [f"{grant.grant_id}  {describe_grant(grant)}" for grant in grants]
    return join("\n", lines) or _("No yes covers later calls.")


async def revoke(context: CommandContext, call: CommandCall) -> str:
    """Revoke a grant of this conversation, or any grant for an admin."""
    agent_id = None if call.is_admin else call.bound_agent_id or ""
    grant = await context.grants.revoke(
        call.arguments["id"], call.decided_by, agent_id, call.further_dm
    )
    return _("Revoked: {grant}. Such calls ask again.").format(grant=describe_grant(grant))


async def _decide(context: CommandContext, call: CommandCall, verdict: Verdict) -> str:
    call, rest = _split_arguments(call)
    reference = call.arguments.get("id")
    reply_target = await _find_replied(context, call) if reference is None else None
    # a reply to a notice selects its request
    if reply_target is not None:
        target = ShownApproval(reply_target.approval_id, reply_target.digest)
    elif reference is not None:
        target = await _find_shown(context, call, reference)
    else:
        pending = await _list_pending(context, call)
        if not pending:
            raise NotFound(_("No request is pending."))
        if len(pending) > 1:
            word = "/approve" if verdict == "approved" else "/reject"
            context.dialogue.set_question(
                call.dm, OpenQuestion(word, await context.outbox.read_newest_id(call.dm))
            )
            return _numbered_list(
                context,
                call,
                pending,
                _("Which one? Reply with its number, or {word} 1.").format(word=word),
            )
        target = ShownApproval(pending[0].approval_id, pending[0].digest)
    if verdict == "approved":
        page = await _next_page(context, call, target)
        if page is not None:
            return page
    request = await context.approval_service.find(target.approval_id)
    scope, answer = _read_choice(request, verdict, rest)
    decision = await context.approval_service.decide(
        target.approval_id, verdict, call.decided_by, target.digest, scope=scope, answer=answer
    )
    must_execute = verdict == "approved" and decision.request_type not in WITHOUT_EFFECT
    then = _("Executing; the result will be reported here.") if must_execute else None
    if verdict == "approved" and decision.session_ended:
        then = TOO_LATE
    first = (
        _("Approved: {request} ({id}).")
        if verdict == "approved"
        else _("Rejected: {request} ({id}).")
    )
    text = first.format(request=_summary(decision), id=decision.approval_id)
    return text if then is None else join(" ", (text, then))


def _split_arguments(call: CommandCall) -> tuple[CommandCall, str]:
    """Return the call with its id alone, and what follows the id."""
    name, rest = call.arguments.get("id", ""), call.arguments.get("scope", "")
    rest = rest or call.arguments.get("dismiss", "")
    # `/approve session`, `/approve name=Ada` and `/reject dismiss` mean the only pending request.
    if name in (*EVERY_SCOPE, DISMISS) or "=" in name or name.startswith("{"):
        name, rest = "", f"{name} {rest}".strip()
    return replace(call, arguments={"id": name} if name else {}), rest


def _read_choice(approval: Approval, verdict: Verdict, text: str) -> tuple[GrantChoice, Answer]:
    """Return the scope of a yes, or the answer to a server's question; raises InvalidRequest."""
    if verdict == "rejected":
        if text not in ("", DISMISS):
            raise InvalidRequest(
                _("/reject takes an id, and `{dismiss}` for a server's question.").format(
                    dismiss=DISMISS
                )
            )
        return ONCE, Answer(is_dismissed=text == DISMISS)
    form = approval.payload.get("form")
    if approval.request_type == QUESTION and isinstance(form, dict):
        return ONCE, Answer(read_typed(form, text))
    words = text.split()
    if len(words) > MAX_SCOPE_WORDS:
        raise InvalidRequest(_("/approve takes an id, a scope and a lifetime such as 30d."))
    scope = GrantChoice(
        scope=parse_scope(words[0]) if words else "once",
        days=parse_days(words[1]) if len(words) == MAX_SCOPE_WORDS else None,
    )
    return scope, NO_ANSWER


async def _next_page(
    context: CommandContext, call: CommandCall, target: ShownApproval
) -> str | None:
    """Return the next page of a request that this conversation has not seen whole, else None."""
    approval = await context.approval_service.find(target.approval_id)
    seen = context.dialogue.count_pages(call.dm, target)
    if approval.dm == call.dm:
        seen = max(seen, approval.pages_shown)
    if approval.status != "pending" or seen >= approval.pages:
        return None
    context.dialogue.set_pages(call.dm, target, seen + 1)
    text = await asyncio.to_thread(
        format_page,
        approval.agent_id,
        approval.approval_id,
        approval.request_type,
        approval.payload,
        approval.basis,
        seen + 1,
    )
    return join(" ", (_("Nothing is approved yet."), text))


async def _find_replied(context: CommandContext, call: CommandCall) -> Approval | None:
    """Return the request of the notice that the command replies to, or None."""
    if call.reply_to is None:
        return None
    approval = await context.approvals.find_by_message(call.dm, call.reply_to)
    return approval if approval is not None and _may_decide(call, approval) else None


async def _find_shown(context: CommandContext, call: CommandCall, reference: str) -> ShownApproval:
    if reference.isdecimal():
        target = context.dialogue.get_item(call.dm, int(reference[:9]))
        if target is None:
            raise NotFound(
                _(
                    "There is no number {reference} in the list you were shown; see /approvals."
                ).format(reference=reference[:20])
            )
    else:
        approval = await context.approval_service.find(reference)
        target = ShownApproval(approval.approval_id, approval.digest)
    current = await context.approval_service.find(target.approval_id)
    if not _may_decide(call, current):
        # the same text as for an unknown id: a conversation must not learn of other agents' requests
        raise NotFound(no_request_text(reference))
    return target


async def count_decisions(context: CommandContext, call: CommandCall, agent_id: str) -> int:
    """Return how many requests of an agent wait for a decision of this conversation."""
    if call.rank in ("member", "guest"):
        return 0
    pending = await _list_pending(context, call)
    return sum(approval.agent_id == agent_id for approval in pending)


async def _list_pending(context: CommandContext, call: CommandCall) -> list[Approval]:
    newest = await context.approvals.list_newest(MAX_LISTED)
    waiting_requests = [
        approval
        for approval in newest
        if approval.status == "pending" and _may_decide(call, approval)
    ]
    return sorted(waiting_requests, key=lambda approval: approval.created_at)


def _may_decide(call: CommandCall, approval: Approval) -> bool:
    """Return whether this conversation decides: an admin's, or the one whose turn or job asked."""
    is_own = approval.agent_id == call.bound_agent_id and approval.further_dm == call.further_dm
    return call.is_admin or is_own


def _numbered_list(
    context: CommandContext, call: CommandCall, pending: Sequence[Approval], then: str
) -> str:
    context.dialogue.set_list(
        call.dm, [ShownApproval(approval.approval_id, approval.digest) for approval in pending]
    )
    lines = [
        join(" ", (f"{number}.", _summary(approval), f"({approval.approval_id})"))
        for number, approval in enumerate(pending, start=1)
    ]
    return join("\n", [*lines, then])


def _summary(approval: Approval) -> str:
    return requests_text(approval.agent_id, approval.request_type, approval.payload)
