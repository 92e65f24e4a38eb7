"""One hostile agent, and every command of choirctl that could show what it wrote.

The agent, its user, its repository and a log hold each kind of text that steers a terminal or hides. Commands
are then run in a pipe, with --json and on a terminal: in `make test` those that show most of it, in `make
nightly` every one. The commands are those of choirctl itself and of the command table, so a new one is run
without a line here; only an argument of a new kind has to be named in `VALUES`.
"""

import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from choir_control.conversations.commands.spec import QueryAction
from choir_control.conversations.commands.table import CHAT_COMMANDS
from choirctl.app import COMMANDS, build_app
from tests.support import foreign_exports
from tests.support.nightly import nightly_but_every
from tests.support.preloaded_choirctl import run_choirctl, run_on_terminal
from tests.support.repositories import GitRepository
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

CONTROLS = "\x1b]52;c;ZWNobw==\x07\x1b]0;title\x07\x1b[2J\x1b[1;1H\x1b[8m\x9b2J\x85\rover\x08\x7f"
HIDDEN = "\u202egnp.exe\u202c\u2066\u200b\ufeff\u2028\U000e0041"
MARKUP = "[/red] [conceal] [link=http://evil.example]here[/link]"
HOSTILE = f"hostile{CONTROLS}{HIDDEN}{MARKUP}"
ONE_LINE = HOSTILE.replace("\r", "")  # for what a user types, or a file is called
FILE_NAME = "evil\x1b[2J\u202e.txt"
SPELLED = "<U+"
# what rich itself writes to a terminal: colours (never hidden ones), and a spinner's or a bar's moves
OWN = re.compile(r"\x1b\[(?!8m|8;|[0-9;]*;8m)[0-9;]*m|\x1b\[\?25[lh]|\r?\x1b\[(?:1A|2K)")
PATIENCE_S = 300.0

Value = Callable[["Hostile"], str]


@dataclass
class Hostile:
    """The stack with the hostile agent, and what its commands are given."""

    stack: EmbeddedStack
    ids: dict[str, str]
    spelled: set[str] = field(default_factory=set)
    """The commands that showed what the agent wrote, spelled out."""
    runs: int = 0

    def in_pipe(self, *words: str) -> CompletedProcess[str]:
        return run_choirctl(*words, home=self.stack.home, env=self.stack.env)

    def on_terminal(self, *words: str) -> CompletedProcess[str]:
        return run_on_terminal(*words, home=self.stack.home, env=self.stack.env)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of choirctl, as its own parser knows it."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]
    """Those it needs."""
    options: tuple[tuple[str, str], ...]
    """Those it needs: the flag and what it is."""
    has_json: bool

    @property
    def name(self) -> str:
        return " ".join(self.words)


def _known(name: str) -> Value:
    return lambda hostile: hostile.ids[name]


# what an argument is, by its name
VALUES: dict[str, Value] = {
    **{
        name: _known(name)
        for name in ("session", "approval", "operation", "document", "file", "files")
    },
    "agent": lambda _: "main",
    "model": lambda _: "default",
    "workspace": lambda _: "spare",
    "dm": lambda _: "console",
    "person": lambda _: "ada",
    "gateway": lambda _: "console",
    "user": lambda _: ONE_LINE,
    "tool": lambda _: HOSTILE[:64],
    "hook": lambda _: HOSTILE[:64],
    "trigger": lambda _: HOSTILE[:64],
    "llm": lambda _: "default",
    "voice": lambda _: "calm",
    "collection": lambda _: "books",
    "source": lambda _: "main",
    "job": lambda _: "slow",
    "grant": lambda _: "grant_1",
    "schedule": lambda _: "1",
    "setting": lambda _: "on",
    "text": lambda _: ONE_LINE,
    "name": _known("receipt"),
    "key": lambda _: "event_window",
    "value": lambda _: "60",
    "browser": lambda _: "web_0",
    "client": lambda _: "a-client",
    "path": lambda hostile: str(hostile.stack.home / "foreign"),
}
# where the name of an argument does not tell
SPECIAL: dict[str, tuple[Value, ...]] = {
    "agent init": (lambda hostile: f"fresh{hostile.runs}",),
    "agent build": (lambda _: "helper",),
    "agent update": (lambda _: "helper",),
    "agent delete": (lambda _: "helper",),
    "db backup": (lambda hostile: f"{hostile.stack.home}/{hostile.runs}.backup",),
    "db restore": (_known("backup"),),
    "mcp add": (lambda _: "wiki",),
    "mcp import": (_known("mcp_file"),),
    "mcp test": (lambda _: "wiki",),
    "harness test": (lambda _: "coder",),
    "mcp remove": (lambda _: "wiki",),
    "mcp login": (lambda _: "wiki",),
    "mcp logout": (lambda _: "wiki",),
    "tool new": (lambda _: "main", lambda hostile: f"fresh.n{hostile.runs}"),
    "tool try": (lambda _: "main", lambda _: "hostile.tool", lambda _: "{}"),
    "skill add": (_known("skill"),),
    "skill show": (lambda _: "notes",),
    "skill approve": (lambda _: "notes",),
    "skill remove": (lambda _: "notes",),
    "memory delete": (lambda _: "main", _known("document")),
    "memory put": (lambda _: "main", lambda _: ONE_LINE),
    "memory search": (lambda _: "main", lambda _: "hostile"),
    "memory import": (lambda _: "main", _known("export")),
    "secret set": (lambda _: "a-key", lambda _: "a-value-of-a-key"),
    "secret delete": (lambda _: "a-key",),
}
# what else they need to do something, and not to wait
MORE: dict[str, tuple[str, ...]] = {
    "service install": ("--dry-run",),
    "up": ("--detach",),
    "backup create": ("--without-secrets",),
    # a real one would install another version here
    "upgrade": ("--from", "/nowhere\u202e"),
    "logs": ("--no-follow",),
    "schedule add": ("--in", "1d", "--remind", ONE_LINE),
    "chat": ("-m", f"say: {ONE_LINE}"),
    "mcp add": ("--agent", "main", "--url", "http://127.0.0.1:1/mcp"),
    "mcp import": ("--agent", "main"),
    "mcp test": ("--wait", "0"),
    "harness test": ("--wait", "0"),
    **{
        f"import {source}": ("--dry-run",)
        for source in ("openclaw", "hermes", "chatgpt", "claude", "nanobot")
    },
    "skill add": ("--agent", "main"),
    "memory list": ("--store", "knowledge"),
    "memory put": ("--key", "other"),
    "memory delete": ("--yes",),
    "memory forget": ("--words", "hostile", "--preview"),
    "memory undo": ("--last", "1d", "--preview"),
    "session reset": ("--preview",),
    "person erase": ("--preview",),
    "collection list": ("--collection", "books"),
    "collection remove": ("--yes",),
    "workspace reset": ("--yes",),
    "agent delete": ("--yes",),
    "agent init": ("--workspace", "spare", "--llm", "default", "--dm", "second"),
    "db restore": ("--yes",),
    "secret apply": ("--wait", "0"),
    "config apply": ("--wait", "0"),
}
# they end what the others look at
# they change the machine that the tests run on, and show nothing that a stranger wrote
NOT_RUN = {"service uninstall", "uninstall"}
LAST = (
    "agent stop", "agent restart", "agent update", "agent update-all", "agent delete", "agent start",
    "memory delete", "collection remove", "workspace reset", "secret delete", "db restore", "down",
)  # fmt: skip
SHOW_IT = {
    "chat", "logs", "session events", "memory list", "memory search", "memory show", "approval show",
    "collection list", "tool list", "tool try",
}  # fmt: skip

SAMPLE = SHOW_IT | {
    "agent status", "approval list", "config diff", "doctor", "hook deliveries", "memory audit",
    "operation show", "person show", "schedule list", "session list", "session show", "skill show", "status",
    "workspace list",
}  # fmt: skip
"""What `make test` runs: each kind of view, and everything that shows a text as it was written."""


def sampled(commands: list[Command]) -> list[object]:
    """Return a test's parameters, and mark all but the sample for `make nightly`."""
    return [
        it if it.name in SAMPLE else pytest.param(it, marks=pytest.mark.nightly) for it in commands
    ]


def read_commands() -> list[Command]:
    """Return every command of choirctl, those that end something last."""
    top = typer.main.get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(top, TyperGroup)
    found = []
    for name, command in top.commands.items():
        inner = command.commands if isinstance(command, TyperGroup) else {"": command}
        for word, each in inner.items():
            needed = [p for p in each.params if p.required]
            found.append(
                Command(
                    words=(name, word) if word else (name,),
                    arguments=tuple(str(p.name) for p in needed if isinstance(p, TyperArgument)),
                    options=tuple(
                        (p.opts[0], str(p.name)) for p in needed if isinstance(p, TyperOption)
                    ),
                    has_json=any("--json" in p.opts for p in each.params),
                )
            )
    run = [command for command in found if command.name not in NOT_RUN]
    return sorted(run, key=lambda c: LAST.index(c.name) if c.name in LAST else -1)


def read_typed() -> list[str]:
    """Return the commands of a conversation that only look at something."""
    return [
        row.typed_form
        for row in CHAT_COMMANDS
        if row.typed_form and isinstance(row.action, QueryAction)
    ]


def prepare(home: Path) -> None:
    """Add a second agent whose repository holds hostile names, and what the commands name."""
    repository = GitRepository(home / "remotes/helper.git")
    repository.commit({"identity/SOUL.md": "x"})
    config = json.loads((home / "config.json").read_text())
    config["workspaces"]["spare"] = {"path": str(home / "workspaces/spare")}
    config["dms"]["second"] = {"gateway": "console", "user_id": "second"}
    names = {"workspace": "spare", "llm": "default", "dm": "second"}
    config["agents"]["helper"] = {"repo": {"url": str(repository.path)}, "defaults": names}
    config["tts"] = {
        "eleven": {"model_id": "m", "endpoint": "http://127.0.0.1:9/v1", "secret": "k"}
    }
    config["voice_profiles"] = {"calm": {"tts": "eleven", "voice_id": "v"}}
    (home / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    score = tmp_path_factory.mktemp("score") / "hostile.json"
    unknown = {"call": {"name": HOSTILE[:64], "arguments": {HOSTILE: HOSTILE}}}
    score.write_text(
        json.dumps(
            {
                "rules": [
                    {"when": {"contains": "unknown tool"}, "then": [unknown, {"say": HOSTILE}]},
                    {"when": {"contains": "say:"}, "then": [{"say": HOSTILE}]},
                ]
            }
        )
    )
    with running_stack(score, prepare=prepare) as stack:
        yield Hostile(stack, write_everywhere(stack))


def write_everywhere(stack: EmbeddedStack) -> dict[str, str]:
    """Have everybody write hostile text wherever they can; return the ids of what came of it."""
    shell, home = ChoirctlRunner(stack.home, stack.env), stack.home

    def call(tool: str, **given: object) -> None:
        shell.succeeds("chat", "-m", f"/tool {tool} {json.dumps(given)}")

    shell.succeeds("chat", "-m", f"say: {ONE_LINE}")
    shell.succeeds("chat", "-m", "the unknown tool")
    shell.succeeds("memory", "put", "main", ONE_LINE, "--key", "of-the-user")
    document = note_down(shell, {"operation": "update", "key": "hostile", "text": HOSTILE})
    call("choir.fs.write", path=FILE_NAME, content=HOSTILE)
    call("choir.exec", command="printf '%s' \"$(cat evil*)\"; cat evil* >&2; false")
    for window in (81, 82):
        call("choir.propose.config_change", patch={"event_window": window}, reason=HOSTILE)
    shell.succeeds("chat", "-m", "#spawn slow: #delay=600000")
    session = str(shell.data("session", "list", "main")[0]["session_id"])
    for name in ("SOUL.md", "AGENTS.md", "memory/\u202e.md"):
        foreign_exports.write(home / "foreign/workspace", name, HOSTILE)
    book = home / "book\u202e.md"
    book.write_text(HOSTILE)
    shell.succeeds("collection", "add", "main", "books", str(book))
    with (home / "logs/main.log").open("a") as log:
        log.write(json.dumps({"message": HOSTILE, "level": "info", HOSTILE: HOSTILE}) + "\n")
        log.write(json.dumps({"message": HOSTILE}, ensure_ascii=False) + "\n")
        log.write(HOSTILE.replace("\r", "") + "\n")
    shell.succeeds("agent", "build", "helper")
    repository_of(home).commit({"identity/SOUL.md": HOSTILE, "evil\u202e.md": HOSTILE})
    skill = home / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text(f"---\nname: notes\ndescription: x\n---\n{HOSTILE}")
    write_tool(home / "agents/main/tools")
    export, backup = home / "main.jsonl", home / "all.backup"
    mcp_file = home / "mcp.json"
    mcp_file.write_text(
        json.dumps({"mcpServers": {HOSTILE: {"command": HOSTILE, "args": [HOSTILE]}}})
    )
    shell.succeeds("memory", "export", "main", "--out", str(export))
    shell.succeeds("db", "backup", str(backup))
    return {
        "session": session,
        "approval": shell.data("approval", "list")[0]["approval_id"],
        "operation": shell.data("operation", "list")[0]["operation_id"],
        "document": document,
        "receipt": receipt_of(shell),
        "file": str(book),
        "files": str(book),
        "export": str(export),
        "backup": str(backup),
        "mcp_file": str(mcp_file),
        "skill": str(skill),
    }


def write_tool(tools: Path) -> None:
    """Write a tool whose description, result and standard error are hostile."""
    tools.mkdir(parents=True)
    runtime = {"timeout_ms": 60_000, "side_effect": "none", "idempotent": True}
    llm = {"name": "hostile.tool", "description": HOSTILE, "parameters": {"type": "object"}}
    (tools / "t.json").write_text(json.dumps({"llm": llm, "runtime": runtime}))
    (tools / "t").write_text(
        "#!/usr/bin/env python3\nimport json, sys\n"
        f"text = {HOSTILE!a}\nprint(json.dumps({{'text': text}}))\nprint(text, file=sys.stderr)\n"
    )
    (tools / "t").chmod(0o755)


def note_down(shell: ChoirctlRunner, note: dict[str, str]) -> str:
    """Have the agent remember something, again where memory was not there yet; return its id."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shell.succeeds("chat", "-m", f"/tool choir.memory.upsert {json.dumps(note)}")
        found = shell.data("memory", "list", "main", "--store", "knowledge", "--prefix", "hostile")
        if found:
            return str(found[0]["document_id"])
        assert time.monotonic() < deadline


def repository_of(home: Path) -> GitRepository:
    """Return the repository that `prepare` made."""
    found = GitRepository.__new__(GitRepository)
    found.path = home / "remotes/helper.git"
    return found


def receipt_of(shell: ChoirctlRunner) -> str:
    """Return the name of a search's receipt, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found: dict[str, Any] = shell.data("memory", "search", "main", "hostile")
        if found.get("receipt_id"):
            return str(found["receipt_id"])
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def words_for(command: Command, hostile: Hostile) -> tuple[str, ...]:
    """Return what runs a command."""
    given: tuple[Value, ...] | None = SPECIAL.get(command.name)
    if given is None:
        check_values(command)
        given = tuple(VALUES[name] for name in command.arguments)
    options = tuple(
        word for flag, name in command.options for word in (flag, VALUES[name](hostile))
    )
    hostile.runs += 1
    more = MORE.get(command.name, ())
    return (*command.words, *(value(hostile) for value in given), *options, *more)


def check_values(command: Command) -> None:
    """Fail if nobody said what a command that takes arguments is given."""
    missing = {*command.arguments, *(name for _, name in command.options)} - VALUES.keys()
    assert not missing, f"say in VALUES what {', '.join(missing)} of `{command.name}` is"


def hidden_in(text: str) -> set[str]:
    """Return every character of a text that no terminal should be given."""
    odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return odd - {"\n", "\t"}


def check(hostile: Hostile, name: str, done: CompletedProcess[str]) -> None:
    """Hold what a command printed against what it may print."""
    shown = done.stdout + done.stderr
    assert "Traceback" not in shown and "choirctl failed" not in shown, shown
    assert done.returncode in range(6) and "Usage:" not in shown, (done.returncode, shown)
    assert hidden_in(OWN.sub("", shown)) == set(), ascii(shown)
    assert "evil.example\x1b\\" not in shown
    if SPELLED in shown:
        hostile.spelled.add(name)


def check_in_pipe(hostile: Hostile, command: Command) -> None:
    """Check what a command prints in a pipe, and with --json if it has that."""
    done = hostile.in_pipe(*words_for(command, hostile))
    check(hostile, command.name, done)
    assert "\x1b" not in done.stdout + done.stderr
    if command.has_json:
        data = hostile.in_pipe(*words_for(command, hostile), "--json")
        check(hostile, command.name, data)
        assert hidden_in(data.stdout) == set()
        assert SPELLED not in data.stdout, "data says what was written, not how it is shown"


def test_each_command_has_values_for_make_nightly() -> None:
    commands = read_commands()
    for command in commands:
        if command.name not in SPECIAL:
            check_values(command)
    assert {command.name for command in commands} >= SAMPLE


@pytest.mark.parametrize("typed", nightly_but_every(3, read_typed()))
def test_nothing_a_command_of_a_conversation_answers_can_steer_the_terminal(
    hostile: Hostile, typed: str
) -> None:
    check(hostile, typed, hostile.in_pipe("chat", "-m", typed))
    check(hostile, typed, hostile.on_terminal("chat", "-m", typed))


@pytest.mark.parametrize(
    "command",
    sampled([it for it in read_commands() if it.name not in LAST]),
    ids=lambda command: command.name,
)
def test_nothing_a_command_prints_in_a_pipe_or_as_json_can_steer_a_terminal(
    hostile: Hostile, command: Command
) -> None:
    check_in_pipe(hostile, command)


@pytest.mark.parametrize("command", sampled(read_commands()), ids=lambda command: command.name)
def test_nothing_a_command_prints_can_steer_the_terminal(
    hostile: Hostile, command: Command
) -> None:
    if command.name in LAST:  # before it ends what others show
        check_in_pipe(hostile, command)
    check(hostile, command.name, hostile.on_terminal(*words_for(command, hostile)))


def test_what_the_agent_wrote_was_shown_and_spelled_out(hostile: Hostile) -> None:
    """A command that shows nothing proves nothing."""
    assert SHOW_IT - hostile.spelled == set()
