"""The one screen that `up` ends with: what runs, where its state is, which model, what to try next."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from choir_common.wire.config import Config
from choir_local.stack_state import StackState
from choirctl.place import HOME_NAME
from choirctl.printing import table

REHEARSAL = (
    "It is scripted: it shows the whole path and understands nothing. For a real one set "
    "OPENROUTER_API_KEY or OPENAI_API_KEY, or start Ollama, and start Choir again."
)


@dataclass(frozen=True, slots=True)
class Screen:
    """What the screen says."""

    state: StackState
    config: Config
    token_file: Path

    def show(self, console: Console, headline: str) -> None:
        """Print it."""
        console.print(f"\n[bold]{headline}[/]\n")
        rows = table("", "")
        rows.show_header = False
        for name, text in self._rows():
            rows.add_row(f"  [dim]{name}[/]", escape(text))
        console.print(rows)
        console.print()

    def _rows(self) -> list[tuple[str, str]]:
        state = self.state
        children = ", ".join(state.children)
        agents = ", ".join(name for name, agent in self.config.agents.items() if agent.autostart)
        http = state.endpoints.get("control_http", "")
        return [
            ("runs", f"{children}: processes of this machine, no container"),
            ("agents", agents or "none starts by itself (choirctl agent start NAME)"),
            ("model", self._model()),
            *([("", REHEARSAL)] if self._is_rehearsal() else []),
            ("state", f"{state.home} (logs in {state.home}/logs)"),
            ("answers at", f"{http} with the token in {self.token_file}, and on its socket"),
            ("try next", f'{self._command()} chat -m "hello"'),
            ("", f"{self._command()} status"),
            ("", f"{self._command()} session list"),
            ("", f"{self._command()} down"),
        ]

    def _model(self) -> str:
        own = self.config.models.get("default")
        return f"{own.model} at {own.endpoint} (config.json)" if own else self.state.model

    def _is_rehearsal(self) -> bool:
        return "default" not in self.config.models and "rehearsal" in self.state.endpoints

    def _command(self) -> str:
        """Return how this very program is called from here."""
        called = Path(sys.argv[0])
        name = "choirctl" if shutil.which("choirctl") else str(called)
        if called.is_absolute() and called.is_relative_to(Path.cwd()) and name != "choirctl":
            name = str(called.relative_to(Path.cwd()))
        home = Path(self.state.home)
        return name if home == Path.home() / HOME_NAME else f"{name} --home {home}"
