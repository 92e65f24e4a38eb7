"""Messages for validation errors of wire models. Pure; used wherever a document is rejected."""

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from choir_common.addresses import ADDRESS_RULES
from choir_common.ids import AGENT_ID_RULE, NAME_PATTERN
from choir_common.wire.channel_config import (
    AUTHSERV_ID_PATTERN,
    NUMBER_ID_PATTERN,
    SIGNAL_NUMBER_PATTERN,
)
from choir_common.wire.mcp_config import (
    ARGUMENT_PATTERN,
    SERVER_NAME_PATTERN,
    VARIABLE_NAME_PATTERN,
    VARIABLE_VALUE_PATTERN,
)
from choir_common.wire.model import RESOURCE_NAME_PATTERN, UUID_PATTERN
from choir_common.wire.repository_files import (
    HOST_PATTERN_PATTERN,
    LOCK_PATTERN,
    SKILL_NAME_PATTERN,
    TOOL_NAME_PATTERN,
)
from choir_common.wire.skill_config import FOLDER_NAME_PATTERN, SHA256_PATTERN
from choir_common.wire.speech_config import DIRECTORY_PATTERN, LANGUAGE_PATTERN
from choir_common.wire.trigger_config import HEADER_PATTERN, INTERVAL_PATTERN, QUIET_HOURS_PATTERN

_RULES = {
    **ADDRESS_RULES,
    NAME_PATTERN: AGENT_ID_RULE,
    RESOURCE_NAME_PATTERN: (
        "a name starts with a letter or digit and contains only letters, digits, `_`, `.` and `-`, "
        "at most 64 characters"
    ),
    UUID_PATTERN: (
        "an id has 32 hexadecimal digits in five groups, such as 5021e08a-2a12-4ce6-8efd-d75750392ff8"
    ),
    SKILL_NAME_PATTERN: (
        "a skill's name starts with a lower-case letter or digit and contains only lower-case "
        "letters, digits, `_` and `-`, at most 64 characters"
    ),
    TOOL_NAME_PATTERN: (
        "a tool's name has two or more parts separated by dots, such as `notes.add`; each part "
        "starts with a lower-case letter and contains only lower-case letters, digits and `_`"
    ),
    LOCK_PATTERN: (
        "a lock is `workspace`, `browser_tab`, `choirtmp`, `file:{path}`, or `mem:`, `repo:`, "
        "`net:` or `ext:` with a name of lower-case letters, digits, `_` and `-`"
    ),
    HOST_PATTERN_PATTERN: (
        "a host is a name in lower case, such as `api.example.com`; `*` and `?` stand for other characters"
    ),
    SERVER_NAME_PATTERN: (
        "the name of an MCP server or a harness starts with a lower-case letter or digit and contains only "
        "lower-case letters, digits and `-`, at most 24 characters"
    ),
    FOLDER_NAME_PATTERN: (
        "the name of a skill folder has lower-case letters and digits, in parts that are joined by "
        "single `-`, at most 64 characters"
    ),
    SHA256_PATTERN: "a SHA-256 hash has 64 digits and letters from a to f",
    VARIABLE_NAME_PATTERN: (
        "the name of an environment variable starts with a letter or `_` and contains only "
        "letters, digits and `_`, at most 64 characters"
    ),
    VARIABLE_VALUE_PATTERN: "an environment variable contains no zero byte",
    ARGUMENT_PATTERN: "an argument is not empty and contains no zero byte",
    AUTHSERV_ID_PATTERN: "it is the name of a mail server, such as `mx.google.com`",
    LANGUAGE_PATTERN: "a language is its ISO 639 code, such as `de`",
    NUMBER_ID_PATTERN: "the id of a number has digits only",
    SIGNAL_NUMBER_PATTERN: "a phone number begins with `+` and the country code, such as `+4915112345678`",
    DIRECTORY_PATTERN: "a directory is an absolute path, or starts with `~`",
    HEADER_PATTERN: "a header's name contains only letters, digits and `-`, at most 64 characters",
    INTERVAL_PATTERN: "an interval is a number with `m`, `h` or `d`, such as `30m` or `2h`",
    QUIET_HOURS_PATTERN: "quiet hours are two times of the day, such as `22:00-07:00`",
}
_KEY = "[key]"


def pattern_rule(pattern: str) -> str | None:
    """Return the rule behind a pattern of these models as text; None for an unknown pattern."""
    return _RULES.get(pattern)


def error_message(fault: ErrorDetails) -> str:
    """Return the message for one error; it never quotes the value or a regular expression."""
    if fault["type"] != "string_pattern_mismatch":
        return fault["msg"]
    pattern = str(fault.get("ctx", {}).get("pattern"))
    return _RULES.get(pattern, "it contains invalid characters or has an invalid length")


def error_path(fault: ErrorDetails, root_name: str) -> str:
    """Return the path of an error, with dots between the keys; `whole` for the document itself."""
    return ".".join(str(part) for part in fault["loc"] if part != _KEY) or root_name


def error_messages(error: ValidationError, root_name: str) -> list[str]:
    """Return each error as path and message."""
    return [
        f"{error_path(fault, root_name)}: {error_message(fault)}"
        for fault in error.errors(include_input=False, include_url=False)
    ]


def format_errors(head: str, faults: Sequence[str], tail: str, most: int) -> str:
    """Return a message: one error inside the sentence, several on separate lines."""
    if len(faults) == 1:
        return f"{head}: {faults[0].rstrip('.')}. {tail}"
    more = [f"and {len(faults) - most} more"] if len(faults) > most else []
    return "\n".join([f"{head}:", *(f"- {fault}" for fault in [*faults[:most], *more]), tail])
