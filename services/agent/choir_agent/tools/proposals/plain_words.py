"""Keep programs out of proposals: pure (spec 8.10, "the LLM never injects executable code").

Called by the checks of all proposals. What is proposed is never run, whatever it says; this keeps it from
being put before a human as if it were ready to be.
"""

from pydantic import JsonValue

from choir_agent.tools.tool import ToolFailed

_MARKS = ("```", "#!/", "<script")


def refuse_programs(where: str, value: JsonValue) -> None:
    """Raise ToolFailed when a text in `value` holds a program."""
    match value:
        case str():
            if any(mark in value.lower() for mark in _MARKS):
                raise ToolFailed(
                    "no_code",
                    f"{where} holds a program. Describe in words what it shall do; a human writes it.",
                )
        case list():
            for number, item in enumerate(value):
                refuse_programs(f"{where}[{number}]", item)
        case dict():
            for name, item in value.items():
                refuse_programs(f"{where}.{name}", item)
        case _:
            pass
