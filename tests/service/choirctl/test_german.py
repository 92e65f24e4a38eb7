"""A German terminal: what choirctl says of a running Choir has no English sentence in it."""

import errno
import os
import re

from choir_common.i18n import LANGUAGES
from choirctl.app import COMMANDS
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.stack import EmbeddedStack

ENGLISH_WORDS = re.compile(
    r"\b(the|is|are|of|and|not|no|it|its|to|with|without|for|has|have|from|by|this|that|at|until|there|runs"
    r"|were|does|cannot|can|you|your|because|again|waits|must|which)\b"
)
"""Words that sentences are made of, and that German does not have."""
OTHERS_WORDS = re.compile(
    "|".join(sorted(map(re.escape, map(os.strerror, errno.errorcode)), key=len, reverse=True))
    + r"|`[^`]*`|'[^']*'|\"[^\"]*\"|\S*/\S*|--\S+|\[[^\]]*\]|choirctl .*|\b\w+[._-]\w[\w.-]*"
)
"""Words of the system, commands, paths, options, quoted values, and names with a dot or a dash."""
CALLS = (
    "doctor",
    "status --verbose",
    "agent status main",
    "agent start",
    "agent update main",
    "session show none",
    "approval show 0",
    "schedule add main --in 5m --remind Tee",
    "schedule list",
    "config load",
    "config set agents.main.asks_per_hour x",
    "config sett x",
    "cost --by kind",
    "memory status main",
    "memory list main",
    "memory show main none",
    "model test default",
    "person show none",
    "tool check nobody",
    "status --nothing",
)


def test_a_german_terminal_reads_no_english_sentence(stack: EmbeddedStack) -> None:
    assert "de" in LANGUAGES
    english = [
        f"choirctl {call}: {line}"
        for call in CALLS
        for line in _read(stack, *call.split())
        if ENGLISH_WORDS.search(OTHERS_WORDS.sub("", line))
    ]
    assert english == []


def test_the_help_of_each_command_is_german(stack: EmbeddedStack) -> None:
    helps = {it.name: _read(stack, it.name, "--help") for it in COMMANDS}
    assert all("Optionen:" in lines for lines in helps.values())
    english = [
        f"{name}: {line}"
        for name, lines in helps.items()
        for line in lines
        if "Beispiel: " not in line and ENGLISH_WORDS.search(OTHERS_WORDS.sub("", line))
    ]
    assert english == []


def test_json_stays_english(stack: EmbeddedStack) -> None:
    """Programs read it, and logs have the same words."""
    done = run_choirctl("doctor", "--json", home=stack.home, env=_german(stack))
    assert "as processes of this machine" in done.stdout


def test_a_sentence_of_a_service_is_german(stack: EmbeddedStack) -> None:
    """Control says in English where the tools of agents have no limits of the kernel."""
    shown = "\n".join(_read(stack, "status", "--verbose"))
    assert "Werkzeugaufrufe werden durch" in shown and "tool calls are" not in shown


def _german(stack: EmbeddedStack) -> dict[str, str]:
    return {**stack.env, "CHOIR_LANGUAGE": "de", "COLUMNS": "300"}


def _read(stack: EmbeddedStack, *words: str) -> list[str]:
    """Return the lines of both streams of a command."""
    done = run_choirctl(*words, home=stack.home, env=_german(stack))
    assert "Traceback" not in done.stderr
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]
