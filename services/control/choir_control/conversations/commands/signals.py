"""Signals that commands send to the agent, each about the conversation in which it was typed."""

from datetime import UTC, datetime

from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.conversations.commands.spec import CommandCall


def inject(call: CommandCall) -> InjectSignal:
    """Return the signal of `/inject`."""
    text = call.arguments["text"]
    return InjectSignal(
        text=text, sent_at=datetime.now(UTC), dm=call.further_dm or "", sender=call.sender
    )


def cancel(call: CommandCall) -> CancelSignal:
    """Return the signal of `/cancel`."""
    return CancelSignal(job=call.arguments.get("job"), dm=call.further_dm or "")


def compact(call: CommandCall) -> CompactSignal:
    """Return the signal of `/compact`."""
    return CompactSignal(dm=call.further_dm or "")
