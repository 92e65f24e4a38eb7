"""Reject proposals that contain programs. Pure.

Called by the checks of all proposals. A proposal is never executed, whatever it contains. This
check prevents a human from being shown a program as if it were ready to install.
"""

from pydantic import JsonValue

from choir_agent.tools.tool import ToolFailed

_MARKS = ("```", "#!/", "<script")


def refuse_programs(where: str, value: JsonValue) -> None:
    """Raise ToolFailed if a text in `value` contains a program."""
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
