"""Progress display of a starting stack: a line for each part that is ready, and what is still starting.

Receives every change of the stack's state, from `up` (the stack itself) or `background` (its state file).
"""

import contextlib
from datetime import datetime

from rich.console import Console

from choir_common.i18n import _
from choir_local.stack_state import ChildState, StackState
from choirctl.output.language import tr
from choirctl.output.printing import escape
from choirctl.output.state_words import state_text

DESCRIPTIONS = {
    "postgres": _("the database"),
    "nats": _("the message bus"),
    "rehearsal": _("the scripted model"),
    "memory": _("the agents' memory"),
    "browser": _("the browser service"),
    "egress": _("the agents' way to the network"),
    "control": _("sessions, log, approvals"),
    "gateway": _("the channels to users"),
}


class StartProgress:
    """Prints each change once; on a terminal a spinner at the bottom names the parts that are starting."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: dict[str, tuple[str, int]] = {}
        self._started_at: dict[str, datetime] = {}
        self._spinner = console.status(_("Starting…"))
        if console.is_terminal:
            self._spinner.start()

    def show(self, state: StackState) -> None:
        """Print what changed since the previous call; never raises, because the stack itself calls it."""
        # the terminal may be closed; the stack must still stop cleanly
        with contextlib.suppress(OSError):
            self._show(state)

    def _show(self, state: StackState) -> None:
        for name, child in state.children.items():
            self._show_child(name, child)
        waiting = [name for name, child in state.children.items() if child.phase == "starting"]
        words = (
            _("Starting {names}…").format(names=", ".join(waiting)) if waiting else _("Starting…")
        )
        self._spinner.update(tr(words))
        if state.phase == "stopping" and self._phases.get("") is None:
            self._phases[""] = ("stopping", 0)
            self._console.print(
                _(
                    "Stopping… Agents first finish their turns (45 s at most); Ctrl-C kills them now."
                )
            )

    def close(self) -> None:
        """Remove the spinner; later changes are printed as plain lines."""
        self._spinner.stop()

    def _show_child(self, name: str, child: ChildState) -> None:
        if child.phase == "starting":
            self._started_at.setdefault(name, child.since)
        if self._phases.get(name) == (child.phase, child.restarts):
            return
        self._phases[name] = (child.phase, child.restarts)
        match child.phase:
            case "ready":
                began = self._started_at.pop(name, child.since)
                took = (child.since - began).total_seconds()
                width = max(len(tr(text)) for text in DESCRIPTIONS.values())
                what = tr(DESCRIPTIONS[name]) if name in DESCRIPTIONS else ""
                self._console.print(
                    _("[green]✓[/] {name:<10}[dim]{what}[/] ready in {took:.1f} s").format(
                        name=name, what=what.ljust(width), took=took
                    ),
                    highlight=False,
                )
            case "failed" | "restarting":
                note = escape(child.note)
                self._console.print(f"[yellow]![/] {name:<10}{state_text(child.phase)}: {note}")
            case "waiting" | "starting" | "stopping" | "stopped":
                pass
