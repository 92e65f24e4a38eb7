"""Handlers of the approval commands. `ApprovalService` decides. Rules: `docs/design/approvals.md`.

A number refers to the list this conversation was last shown. The decision applies to the digest that
was shown.
"""

from collections.abc import Sequence

from choir_common.approvals.rendering import request_lines, request_summary
from choir_common.errors import NotFound
from choir_control.approvals.store import Approval, Verdict
from choir_control.approvals.texts import TOO_LATE, format_details
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.dialogue import OpenQuestion, ShownApproval
from choir_control.conversations.commands.spec import CommandCall

MAX_LISTED = 500


async def list_approvals(context: CommandContext, call: CommandCall) -> str:
    """List pending requests: of the bound agent, or of all agents in an admin conversation.

    With an id or a number, show that request and exactly what it would change.
    """
    named = call.arguments.get("id")
    if named is not None:
        found = await context.approval_service.find(
            (await _named(context, call, named)).approval_id
        )
        lines = request_lines(found.request_type, found.payload, found.basis)
        return format_details(found.approval_id, found.state, _gist(found), lines)
    pending = await _pending(context, call)
    if not pending:
        return "Nothing waits for a decision."
    return _numbered(context, call, pending, "/approve 1 approves the first, /reject 1 rejects it.")


async def approve(context: CommandContext, call: CommandCall) -> str:
    """Approve the named request, or the only pending one."""
    return await _decide(context, call, "approved")


async def reject(context: CommandContext, call: CommandCall) -> str:
    """Reject the named request, or the only pending one."""
    return await _decide(context, call, "rejected")


async def _decide(context: CommandContext, call: CommandCall, verdict: Verdict) -> str:
    named = call.arguments.get("id")
    replied = await _replied(context, call) if named is None else None
    # a reply to a notice selects its request
    if replied is not None:
        shown = ShownApproval(replied.approval_id, replied.digest)
    elif named is not None:
        shown = await _named(context, call, named)
    else:
        pending = await _pending(context, call)
        if not pending:
            raise NotFound("Nothing waits for a decision.")
        if len(pending) > 1:
            word = "/approve" if verdict == "approved" else "/reject"
            context.dialogue.set_question(
                call.dm, OpenQuestion(word, await context.outbox.read_newest_id(call.dm))
            )
            return _numbered(context, call, pending, f"Which one? Say its number, or {word} 1.")
        shown = ShownApproval(pending[0].approval_id, pending[0].digest)
    by = f"dm {call.dm}"
    decided = await context.approval_service.decide(shown.approval_id, verdict, by, shown.digest)
    executing = verdict == "approved" and decided.request_type != "call"
    then = " Executing; this conversation is told how it ends." if executing else ""
    if verdict == "approved" and decided.session_ended:
        then = f" {TOO_LATE}"
    return f"{verdict.capitalize()}: {_gist(decided)} ({decided.approval_id}).{then}"


async def _replied(context: CommandContext, call: CommandCall) -> Approval | None:
    """Return the request of the notice that the command replies to, or None."""
    if call.reply_to is None:
        return None
    found = await context.approvals.find_by_message(call.dm, call.reply_to)
    return found if found is not None and _may(call, found) else None


async def _named(context: CommandContext, call: CommandCall, named: str) -> ShownApproval:
    if named.isdecimal():
        shown = context.dialogue.get_item(call.dm, int(named[:9]))
        if shown is None:
            raise NotFound(
                f"There is no number {named[:20]} in what you were shown; see /approvals."
            )
    else:
        found = await context.approval_service.find(named)
        shown = ShownApproval(found.approval_id, found.digest)
    asked = await context.approval_service.find(shown.approval_id)
    if not _may(call, asked):
        # the same text as for an unknown id: a conversation must not learn of other agents' requests
        raise NotFound(f"There is no request {named[:100]!r} for a decision.")
    return shown


async def _pending(context: CommandContext, call: CommandCall) -> list[Approval]:
    newest = await context.approvals.list_newest(MAX_LISTED)
    waiting = [asked for asked in newest if asked.status == "pending" and _may(call, asked)]
    return sorted(waiting, key=lambda asked: asked.created_at)


def _may(call: CommandCall, asked: Approval) -> bool:
    return call.is_admin or asked.agent_id == call.bound_agent_id


def _numbered(
    context: CommandContext, call: CommandCall, pending: Sequence[Approval], then: str
) -> str:
    context.dialogue.set_list(
        call.dm, [ShownApproval(asked.approval_id, asked.digest) for asked in pending]
    )
    lines = [
        f"{number}. {_gist(asked)} ({asked.approval_id})"
        for number, asked in enumerate(pending, start=1)
    ]
    return "\n".join([*lines, then])


def _gist(asked: Approval) -> str:
    return f"{asked.agent_id} asks for {request_summary(asked.request_type, asked.payload)}"
