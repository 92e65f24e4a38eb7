"""Detection of failed tool results, and the text that identifies a failure. Pure.

Used by the agent, which looks for known failures, and by memory, which stores them: both must get the same
text.

Which tools return text from outside, such as web pages and mail. Pure.

Used by the agent's fold and by memory, which must agree: a note that an agent writes after it read a page
is trusted no more than the page. See docs/design/security.md.
"""

from choir_common.wire.events import ToolStatus
from choir_common.wire.model import JsonObject

MAX_FAILURE_CHARS = 600
"""Characters. The beginning and the end of a long message are kept: where it failed, and why."""
SEEN_BEFORE = "seen_before"
"""Key in a failed call's output under which the agent puts remembered failures."""
# Choir's own tools for memory, jobs and skills: the agent handles their failures at once; they are not
# remembered.
_EXCLUDED_TOOLS = ("choir.memory.", "choir.core.", "choir.skill.", "choir.propose.")


def failure_text(tool: str, status: ToolStatus, output: JsonObject) -> str | None:
    """Return the text of a failed call; None if it did not fail, or was not allowed to run.

    A command with an exit code other than 0 has failed, although the tool that ran it succeeded.
    """
    if tool.startswith(_EXCLUDED_TOOLS):
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
    return _truncate_middle(said)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _truncate_middle(said: str) -> str:
    said = said.replace("\x00", "").strip()
    half = MAX_FAILURE_CHARS // 2
    return said if len(said) <= MAX_FAILURE_CHARS else f"{said[:half]} … {said[-half:]}"


OUTSIDE_TOOL_PREFIXES = ("choir.web.", "choir.email.")
"""Name prefixes of these tools."""


def returns_outside_text(tool: str) -> bool:
    """Return whether this tool returns text that outsiders wrote."""
    return tool.startswith(OUTSIDE_TOOL_PREFIXES)
