"""Commands that erase a part of an agent's memory or reset its conversation: `/forget` and `/reset`.

The question shows exactly what would be erased. The answer carries out that preview and nothing else: its
digest is kept in the dialogue, and memory refuses a selection that has changed. Agents have no such tool;
only a person can type a command.
"""

import re
from datetime import UTC, datetime, timedelta

from choir_common.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _, join, ngettext
from choir_common.wire.memory_forget import (
    ConversationMessage,
    ForgetReport,
    ForgetSelection,
    ForgottenDocument,
    ResetKind,
)
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import result_recipient, target_agent
from choir_control.conversations.commands.spec import CommandCall

SHOWN = 12
"""Documents listed in a conversation; the operator's command lists more."""
MAX_LINE = 140
MAX_PERIOD = timedelta(days=36_500)
_LAST = re.compile(r"last\s+(?:(\d{1,5})\s+)?(minute|hour|day|week)s?", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“„'](.+)[\"”'’]", re.DOTALL)
_KIND_NAMES = {
    "turn": _("message"),
    "tools": _("run of tools"),
    "document_chunk": _("part of a collection"),
}

MESSENGER = _("Messages in the messenger itself stay; delete them there.")


async def preview_forget(context: CommandContext, call: CommandCall) -> str:
    """Return what `/forget` would erase; raises NotFound if that is nothing."""
    agent_id = await _require_own_agent(context, call)
    what = call.arguments["what"]
    if what.strip().lower() == "session":
        selection = await context.forgetting.select_conversation(agent_id, "all")
    else:
        selection = parse_forget(what, datetime.now(UTC))
    return await _preview(context, call, agent_id, selection)


async def preview_reset(context: CommandContext, call: CommandCall) -> str:
    """Return what `/reset` would erase and keep."""
    return await _preview_reset(context, call, "history")


async def preview_full_reset(context: CommandContext, call: CommandCall) -> str:
    """Return what `/reset all` would erase and keep."""
    return await _preview_reset(context, call, "all")


async def erase(context: CommandContext, call: CommandCall) -> str:
    """Erase what the conversation was shown."""
    agent_id = await _require_own_agent(context, call)
    selection = context.dialogue.take_erasure(call.dm)
    if selection is None:
        raise Conflict(_("Nothing was erased: type the command again to see what it would erase."))

    async def work() -> str:
        report = await context.forgetting.forget(agent_id, selection, f"dm:{call.dm}")
        return format_result(report)

    result = await context.background.run(result_recipient(context, call), "forget", agent_id, work)
    return result or _("It is being erased from the memory of {agent}. {result_follows}").format(
        agent=agent_id, result_follows=RESULT_FOLLOWS
    )


def parse_forget(what: str, now: datetime) -> ForgetSelection:
    """Return the selection that a person typed: `last 10 minutes`, or words.

    Words in quotation marks are always words. Raises InvalidRequest for a period or words without sense.
    """
    text = what.strip()
    period = _LAST.fullmatch(text)
    if period is not None:
        length = timedelta(**{f"{period[2].lower()}s": int(period[1] or 1)})
        if not timedelta() < length < MAX_PERIOD:
            raise InvalidRequest(
                _(
                    "{text!r} is too short or too long a period; type for example `last 10 minutes`."
                ).format(text=text[:60])
            )
        return ForgetSelection(since=now - length)
    quoted = _QUOTED.fullmatch(text)
    words = (quoted[1] if quoted else text).strip()
    if not words or len(words) > 400:
        raise InvalidRequest(
            _("Name 1 to 400 characters of words, `session`, or `last 10 minutes`.")
        )
    return ForgetSelection(words=words)


async def _preview_reset(context: CommandContext, call: CommandCall, kind: ResetKind) -> str:
    agent_id = await _require_own_agent(context, call)
    selection = await context.forgetting.select_conversation(agent_id, kind)
    return await _preview(context, call, agent_id, selection)


async def _preview(
    context: CommandContext, call: CommandCall, agent_id: str, selection: ForgetSelection
) -> str:
    try:
        report = await context.forgetting.forget(agent_id, selection, f"dm:{call.dm}")
    except Unavailable as error:
        # otherwise the gateway would deliver the command again until memory is available
        raise Conflict(
            _("{message} Nothing was erased; try again later.").format(message=error.message)
        ) from error
    if not report.memory.total and not report.logs and report.conversation == "kept":
        hint = (
            _(
                "The running conversation is not searched: /forget last 10 minutes, /forget session "
                "and /reset erase what {agent} was told just now."
            ).format(agent=agent_id)
            if report.unsearched
            else ""
        )
        nothing = _("The memory of {agent} contains nothing of it.").format(agent=agent_id)
        raise NotFound(join(" ", (nothing, hint)) if hint else nothing)
    digest = report.memory.digest
    context.dialogue.set_erasure(call.dm, selection.model_copy(update={"expected_digest": digest}))
    gateway = context.configuration.current.gateway_of(call.dm)
    config = context.configuration.current.config
    is_messenger = gateway is not None and not config.gateways[gateway].channel.uses_choir_api
    text = format_preview(report, is_messenger=is_messenger)
    dms = await _conversations_of(context, agent_id)
    if len(dms) > 1:
        others = [dm for dm in dms if dm != call.dm]
        concerns = _("This concerns all conversations of {agent}, also {others}.").format(
            agent=agent_id, others=", ".join(others)
        )
        text = join("\n", (text, concerns))
    return text


async def _conversations_of(context: CommandContext, agent_id: str) -> list[str]:
    """Return the conversations that an agent's unfinished session serves, or that it would serve."""
    agent = context.configuration.current.agent(agent_id)
    session = await context.sessions.find_unfinished(agent_id)
    if session is None:
        return [agent.defaults.dm, *agent.conversations]
    return [session.bindings.dm, *await context.conversations.list_bound(session.session_id)]


async def _require_own_agent(context: CommandContext, call: CommandCall) -> str:
    """Return the target agent.

    Raises Forbidden unless an admin asks, or the agent's own user while it serves no other conversation.
    """
    agent_id = target_agent(call)
    owner = context.configuration.current.agent(agent_id).defaults.dm
    if call.is_admin:
        return agent_id
    if owner != call.dm:
        raise Forbidden(
            _(
                "Only an admin, or the user in the default conversation of {agent}, can erase what it "
                "remembers. Nothing was done."
            ).format(agent=agent_id)
        )
    if len(await _conversations_of(context, agent_id)) > 1:
        raise Forbidden(
            _(
                "{agent} serves other conversations too, so only an admin can erase what it remembers. "
                "Nothing was done."
            ).format(agent=agent_id)
        )
    return agent_id


def format_preview(report: ForgetReport, *, is_messenger: bool = False) -> str:
    """Return what a preview contains, as the text before the question; a messenger keeps its own copies."""
    memory = report.memory
    listed = [_line(document) for document in memory.documents[:SHOWN]]
    more = memory.total - len(listed)
    lines: list[str] = [
        _("This permanently erases {what}. Times are in UTC.").format(what=_describe(report))
    ]
    lines += listed
    if more > 0:
        lines.append(ngettext("… and {count} more.", "… and {count} more.", more))
    if report.message_count:
        lines.append(_("The newest messages of the conversation:"))
        lines += [_message_line(message) for message in report.messages[-SHOWN:]]
    return join("\n", [*lines, *_consequences(report, is_messenger)])


def format_result(report: ForgetReport) -> str:
    """Return what was erased, and what the agent does now."""
    lines: list[str] = [_("Erased: {what}.").format(what=_describe(report))]
    lines += _restored_and_logs(report)
    if report.restarts:
        lines.append(
            _("{agent} has started again{remaining}.").format(
                agent=report.agent_id, remaining=_remaining(report)
            )
        )
    return join("\n", lines)


def _consequences(report: ForgetReport, is_messenger: bool) -> list[str]:
    memory = report.memory
    lines: list[str] = []
    if memory.supported:
        lines.append(
            ngettext(
                "{count} document loses this source and stays, because it rests on others too.",
                "{count} documents lose this source and stay, because they rest on others too.",
                memory.supported,
            )
        )
    lines += _restored_and_logs(report)
    if report.logs and is_messenger:
        lines.append(MESSENGER)
    if report.restarts:
        lines.append(
            _("{agent} stops, discards open work, and starts again{remaining}.").format(
                agent=report.agent_id, remaining=_remaining(report)
            )
        )
    if report.earlier_until is not None:
        lines.append(
            _(
                "What was said before this session ({earlier_until:%Y-%m-%d %H:%M} UTC) stays in "
                "memory; /forget last 7 days also erases what was said in earlier sessions of that "
                "time."
            ).format(earlier_until=report.earlier_until)
        )
    if report.unsearched:
        lines.append(
            _("The running conversation is not searched; /forget session or /reset erases it.")
        )
    return lines


def _restored_and_logs(report: ForgetReport) -> list[str]:
    lines: list[str] = []
    if report.memory.restored:
        lines.append(
            ngettext(
                "Active again: {count} older document.",
                "Active again: {count} older documents.",
                report.memory.restored,
            )
        )
    if report.logs:
        lines.append(
            ngettext(
                "The log, stored messages and received files of {count} session are erased; only hashes "
                "stay.",
                "The log, stored messages and received files of {count} sessions are erased; only hashes "
                "stay.",
                len(report.logs),
            )
        )
    return lines


def _remaining(report: ForgetReport) -> str:
    match report.conversation:
        case "summary" if report.summary_chars:
            return _(" with its reference summary ({summary_chars:,} characters)").format(
                summary_chars=report.summary_chars
            )
        case "summary":
            return _("; there is no reference summary yet (/compact writes one)")
        case "nothing":
            return _(" with an empty conversation")
        case "rest":
            return _(" with the rest of the conversation")
        case _:
            return ""


def _line(document: ForgottenDocument) -> str:
    kind = _KIND_NAMES.get(document.kind, document.kind)
    return join(" ", (f"- {document.at:%Y-%m-%d %H:%M}", kind)) + f": {_excerpt(document.text)}"


def _message_line(message: ConversationMessage) -> str:
    return f"- {message.at:%Y-%m-%d %H:%M} {message.sender}: {_excerpt(message.text)}"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


def _describe(report: ForgetReport) -> str:
    """Return what is erased, counted: from memory, from the conversation, or only logs."""
    counts = join(", ", [_plural(count, kind) for kind, count in report.memory.counts.items()])
    parts = (
        [_("{counts} from the memory of {agent}").format(counts=counts, agent=report.agent_id)]
        if counts
        else []
    )
    if report.message_count:
        parts.append(
            ngettext(
                "{count} message from the conversation",
                "{count} messages from the conversation",
                report.message_count,
            )
        )
    if len(parts) == 2:
        return _("{first} and {second}").format(first=parts[0], second=parts[1])
    if parts:
        return parts[0]
    return _("stored logs of {agent}, and nothing from its memory").format(agent=report.agent_id)


def _plural(count: int, kind: str) -> str:
    match kind:
        case "turn":
            return ngettext("{count} message", "{count} messages", count)
        case "tools":
            return ngettext("{count} run of tools", "{count} runs of tools", count)
        case "document_chunk":
            return ngettext("{count} part of a collection", "{count} parts of a collection", count)
        case "fact":
            return ngettext("{count} fact", "{count} facts", count)
        case "summary":
            return ngettext("{count} summary", "{count} summaries", count)
        case other if count == 1:
            return f"1 {other}"
        case other:
            return f"{count:,} {other[:-1]}ies" if other.endswith("y") else f"{count:,} {other}s"
