"""Handlers of the approval commands. `Desk` decides. Rules: `docs/design/approvals.md`.

A number refers to the list this conversation was last shown. The decision applies to the digest that
was shown.
"""

from collections.abc import Sequence

from choir_common.approvals.shown import gist_of, lines_of
from choir_common.errors import NotFound
from choir_control.approvals.store import Approval, Verdict
from choir_control.approvals.words import TOO_LATE, shown_text
from choir_control.commands.choices import Question, Shown
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call

MOST = 500


async def list_approvals(hands: Hands, call: Call) -> str:
    """List pending requests: of the bound agent, or of all agents in an admin conversation.

    With an id or a number, show that request and exactly what it would change.
    """
    named = call.values.get("id")
    if named is not None:
        found = await hands.desk.find((await _named(hands, call, named)).approval_id)
        lines = lines_of(found.request_type, found.payload, found.basis)
        return shown_text(found.approval_id, found.state, _gist(found), lines)
    pending = await _pending(hands, call)
    if not pending:
        return "Nothing waits for a decision."
    return _numbered(hands, call, pending, "/approve 1 approves the first, /reject 1 rejects it.")


async def approve(hands: Hands, call: Call) -> str:
    """Approve the named request, or the only pending one."""
    return await _decide(hands, call, "approved")


async def reject(hands: Hands, call: Call) -> str:
    """Reject the named request, or the only pending one."""
    return await _decide(hands, call, "rejected")


async def _decide(hands: Hands, call: Call, verdict: Verdict) -> str:
    named = call.values.get("id")
    replied = await _replied(hands, call) if named is None else None
    # a reply to a notice selects its request
    if replied is not None:
        shown = Shown(replied.approval_id, replied.digest)
    elif named is not None:
        shown = await _named(hands, call, named)
    else:
        pending = await _pending(hands, call)
        if not pending:
            raise NotFound("Nothing waits for a decision.")
        if len(pending) > 1:
            word = "/approve" if verdict == "approved" else "/reject"
            hands.choices.ask(call.dm, Question(word, await hands.outbox.newest(call.dm)))
            return _numbered(hands, call, pending, f"Which one? Say its number, or {word} 1.")
        shown = Shown(pending[0].approval_id, pending[0].digest)
    by = f"dm {call.dm}"
    decided = await hands.desk.decide(shown.approval_id, verdict, by, shown.digest)
    executing = verdict == "approved" and decided.request_type != "call"
    then = " Executing; this conversation is told how it ends." if executing else ""
    if verdict == "approved" and decided.too_late:
        then = f" {TOO_LATE}"
    return f"{verdict.capitalize()}: {_gist(decided)} ({decided.approval_id}).{then}"


async def _replied(hands: Hands, call: Call) -> Approval | None:
    """Return the request of the notice that the command replies to, or None."""
    if call.reply_to is None:
        return None
    found = await hands.approvals.asked_in(call.dm, call.reply_to)
    return found if found is not None and _may(call, found) else None


async def _named(hands: Hands, call: Call, named: str) -> Shown:
    if named.isdecimal():
        shown = hands.choices.pick(call.dm, int(named[:9]))
        if shown is None:
            raise NotFound(
                f"There is no number {named[:20]} in what you were shown; see /approvals."
            )
    else:
        found = await hands.desk.find(named)
        shown = Shown(found.approval_id, found.digest)
    asked = await hands.desk.find(shown.approval_id)
    if not _may(call, asked):
        # the same text as for an unknown id: a conversation must not learn of other agents' requests
        raise NotFound(f"There is no request {named[:100]!r} for a decision.")
    return shown


async def _pending(hands: Hands, call: Call) -> list[Approval]:
    newest = await hands.approvals.newest(MOST)
    waiting = [asked for asked in newest if asked.status == "pending" and _may(call, asked)]
    return sorted(waiting, key=lambda asked: asked.created_at)


def _may(call: Call, asked: Approval) -> bool:
    return call.is_admin or asked.agent_id == call.bound


def _numbered(hands: Hands, call: Call, pending: Sequence[Approval], then: str) -> str:
    hands.choices.show(call.dm, [Shown(asked.approval_id, asked.digest) for asked in pending])
    lines = [
        f"{number}. {_gist(asked)} ({asked.approval_id})"
        for number, asked in enumerate(pending, start=1)
    ]
    return "\n".join([*lines, then])


def _gist(asked: Approval) -> str:
    return f"{asked.agent_id} asks for {gist_of(asked.request_type, asked.payload)}"
