"""The summary screen that `up` prints: what runs, where its state is, which model, and commands to try."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from choir_common.i18n import _
from choir_common.target import HOME_NAME
from choir_common.wire.config import Config
from choir_common.wire.operator import DmView
from choir_local.stack_state import StackState
from choirctl.output.printing import escape, table
from choirctl.output.views import agent_channel

REHEARSAL_NOTE = _(
    "It is scripted, for tests and demonstrations. For a real model set "
    "OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or "
    "start Ollama, LM Studio, llama.cpp or vLLM, and start Choir again."
)
TRY_NEXT = (("chat", "-m", "hello"), ("status",), ("session", "list"), ("down",))


@dataclass(frozen=True, slots=True)
class SummaryScreen:
    """Content of the summary screen."""

    state: StackState
    config: Config
    token_file: Path
    dms: tuple[DmView, ...] = ()
    """The conversations, with the agent bound to each."""
    web_link: str = ""
    """A one-time link to the web page; empty if there is none."""

    def show(self, console: Console, headline: str) -> None:
        """Print the screen below `headline`."""
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
            (
                _("runs"),
                _("{children}: processes of this machine, no container").format(children=children),
            ),
            (_("agents"), agents or _("none starts automatically (choirctl agent start NAME)")),
            (_("model"), self._model()),
            *([("", REHEARSAL_NOTE)] if self._is_rehearsal() else []),
            *[("", note) for note in self._model_notes()],
            (_("state"), _("{home} (logs in {home}/logs)").format(home=state.home)),
            (
                _("answers at"),
                _("{http} with the token in {token_file}, and the Unix socket").format(
                    http=http, token_file=self.token_file
                ),
            ),
            *([("", self._trust())] if http.startswith("https:") else []),
            *self._channel_rows(),
            *(
                [
                    (
                        _("web page"),
                        _("{web_link} (once, within 15 minutes)").format(web_link=self.web_link),
                    )
                ]
                if self.web_link
                else []
            ),
            *zip((_("try next"), *[""] * len(TRY_NEXT)), self._suggested_commands(), strict=False),
        ]

    def _channel_rows(self) -> list[tuple[str, str]]:
        """Return a row for each agent whose conversation is on a channel other than the console."""
        elsewhere = [
            it for it in self.dms if not it.channel.uses_choir_api and it.agent_id is not None
        ]
        return [(_("talks") if not i else "", agent_channel(it)) for i, it in enumerate(elsewhere)]

    def _suggested_commands(self) -> list[str]:
        """Return commands to try that work if copied unchanged."""
        has_console = any(it.channel.uses_choir_api and self._answers(it) for it in self.dms)
        words = [it for it in TRY_NEXT if has_console or it[0] != "chat"]
        return [f"{self._command()} {shlex.join(it)}" for it in words]

    def _answers(self, dm: DmView) -> bool:
        """Return whether an agent answers in a DM, or will as soon as it has started."""
        agent = self.config.agents.get(dm.agent_id or "")
        return dm.bound or (agent is not None and agent.autostart)

    def _trust(self) -> str:
        authority = Path(self.state.home) / "tls" / "ca.pem"
        if authority.is_file():
            return _("its certificate is verified by {authority}").format(authority=authority)
        return _("with the certificate in CHOIR_TLS_CERT")

    def _model(self) -> str:
        own = self.config.models.get("default")
        return (
            _("{model} at {endpoint} (config.json)").format(model=own.model, endpoint=own.endpoint)
            if own
            else self.state.model
        )

    def _model_notes(self) -> tuple[str, ...]:
        return () if "default" in self.config.models else self.state.model_notes

    def _is_rehearsal(self) -> bool:
        return "default" not in self.config.models and "rehearsal" in self.state.endpoints

    def _command(self) -> str:
        """Return the command that calls this program from the current directory, with --home if needed."""
        called = Path(sys.argv[0])
        name = "choirctl" if shutil.which("choirctl") else str(called)
        if called.is_absolute() and called.is_relative_to(Path.cwd()) and name != "choirctl":
            name = str(called.relative_to(Path.cwd()))
        home = Path(self.state.home)
        words = [name] if home == Path.home() / HOME_NAME else [name, "--home", str(home)]
        return shlex.join(words)
