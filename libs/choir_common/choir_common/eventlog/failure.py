"""Detection of failed tool results, and the text that identifies a failure. Pure.

Used by the agent, which looks for known failures, and by memory, which stores them: both must get the same
text.
"""

from choir_common.wire.events import ToolStatus
from choir_common.wire.json import JsonObject

MAX_SAID = 600
"""Characters. The beginning and the end of a long message are kept: where it failed, and why."""
SEEN_BEFORE = "seen_before"
"""Key in a failed call's output under which the agent puts remembered failures."""
# Choir's own tools for memory, jobs and skills: the agent handles their failures at once; they are not
# remembered.
_OWN = ("choir.memory.", "choir.core.", "choir.skill.", "choir.propose.")


def failure_words(tool: str, status: ToolStatus, output: JsonObject) -> str | None:
    """Return the text of a failed call; None if it did not fail, or was not allowed to run.

    A command with an exit code other than 0 has failed, although the tool that ran it succeeded.
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
