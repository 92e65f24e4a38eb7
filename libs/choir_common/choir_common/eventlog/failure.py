"""Read from a tool's result whether it failed, and in which words: pure.

Called by the agent, which asks whether that is known, and by memory, which remembers it: both see the same.
"""

from choir_common.wire.events import ToolStatus
from choir_common.wire.json import JsonObject

MAX_SAID = 600
"""Characters; the end of a long message says what went wrong, the beginning where."""
SEEN_BEFORE = "seen_before"
"""The place in a failed call's output where the agent lays what it remembers of such failures."""
# its own memory, jobs and skills: what goes wrong there is told on the spot and is no experience
_OWN = ("choir.memory.", "choir.core.", "choir.skill.", "choir.propose.")


def failure_words(tool: str, status: ToolStatus, output: JsonObject) -> str | None:
    """Return what a failed call said of itself; none for one that did not fail, or was not allowed to run.

    A command that ended with an exit code other than 0 has failed, although the tool that ran it has not.
    """
    if tool.startswith(_OWN):
        return None
    exit_code = output.get("exit_code")
    if status == "error":
        said = " ".join(str(output[name]) for name in ("code", "message") if output.get(name))
    elif status == "success" and isinstance(exit_code, int) and exit_code != 0:
        streams = (output.get("stderr"), output.get("stdout"))
        words = next((text for text in map(_text, streams) if text.strip()), "")
        said = f"exit code {exit_code}: {words.strip()}"
    else:
        return None
    return _bounded(said)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _bounded(said: str) -> str:
    said = said.replace("\x00", "").strip()
    half = MAX_SAID // 2
    return said if len(said) <= MAX_SAID else f"{said[:half]} … {said[-half:]}"
