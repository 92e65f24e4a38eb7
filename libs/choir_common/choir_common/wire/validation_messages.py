"""Messages for validation errors of wire models. Pure; used wherever a document is rejected."""

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from choir_common.addresses import ADDRESS_RULES
from choir_common.i18n import Message, _, join
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

RULES = {
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
"""The rules behind patterns; `scripts.translations` collects them."""
PYDANTIC: dict[str, tuple[Message, ...]] = {
    "missing": (_("Field required"),),
    "extra_forbidden": (_("Extra inputs are not permitted"),),
    "value_error": (_("Value error, {error}"),),
    "string_type": (_("Input should be a valid string"),),
    "string_too_short": (
        _("String should have at least {min_length} character"),
        _("String should have at least {min_length} characters"),
    ),
    "string_too_long": (_("String should have at most {max_length} characters"),),
    "int_type": (_("Input should be a valid integer"),),
    "int_from_float": (_("Input should be a valid integer, got a number with a fractional part"),),
    "float_type": (_("Input should be a valid number"),),
    "bool_type": (_("Input should be a valid boolean"),),
    "list_type": (_("Input should be a valid list"),),
    "tuple_type": (_("Input should be a valid array"),),
    "dict_type": (_("Input should be an object"),),
    "model_type": (_("Input should be an object"),),
    "literal_error": (_("Input should be {expected}"),),
    "greater_than": (_("Input should be greater than {gt}"),),
    "greater_than_equal": (_("Input should be greater than or equal to {ge}"),),
    "less_than": (_("Input should be less than {lt}"),),
    "less_than_equal": (_("Input should be less than or equal to {le}"),),
}
"""pydantic's words by the type of the error; words that differ from these stay English."""
_KEY = "[key]"


def pattern_rule(pattern: str) -> str | None:
    """Return the rule behind a pattern of these models as text; None for an unknown pattern."""
    return Message(RULES[pattern]) if pattern in RULES else None


def error_message(fault: ErrorDetails) -> str:
    """Return the message for one error; it never quotes the value or a regular expression."""
    context = fault.get("ctx", {})
    if fault["type"] == "string_pattern_mismatch":
        rule = pattern_rule(str(context.get("pattern")))
        return rule or _("it contains invalid characters or has an invalid length")
    error = context.get("error")
    values = {**context, "error": error.args[0]} if isinstance(error, ValueError) else context
    messages = (template.format(**values) for template in PYDANTIC.get(fault["type"], ()))
    return next((it for it in messages if str(it) == fault["msg"]), fault["msg"])


def error_path(fault: ErrorDetails, root_name: str) -> str:
    """Return the path of an error, with dots between the keys; `whole` for the document itself."""
    return ".".join(str(part) for part in fault["loc"] if part != _KEY) or root_name


def error_messages(error: ValidationError, root_name: str) -> list[str]:
    """Return each error as path and message."""
    return [
        join(": ", (error_path(fault, root_name), error_message(fault)))
        for fault in error.errors(include_input=False, include_url=False)
    ]


def format_errors(head: str, faults: Sequence[str], tail: str, most: int) -> str:
    """Return a message: one error inside the sentence, several on separate lines."""
    if len(faults) == 1:
        fault = faults[0]
        return join("", (head, ": ", fault, " " if fault.endswith(".") else ". ", tail))
    items: list[str] = list(faults[:most])
    if len(faults) > most:
        items.append(_("and {count} more").format(count=len(faults) - most))
    return join("\n", (head + ":", *("- " + fault for fault in items), tail))
