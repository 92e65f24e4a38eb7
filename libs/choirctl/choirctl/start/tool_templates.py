"""Templates of `choirctl tool new`: a manifest, a program and a test case. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from choir_common.i18n import _
from choir_common.wire.model import JsonObject

TemplateName = Literal["python", "shell", "http"]

PYTHON = _(
    '#!/usr/bin/env python3\n"""Reads {"call_id": …, "input": {…}} on standard input, '
    "and prints one JSON object.\n\nWhat it writes to standard error is shown by "
    '`choirctl tool try`, and is in the agent\'s log.\n"""\n\nimport json\nimport sys\n\n\n'
    'def run(arguments):\n    words = arguments["text"].split()\n    return '
    '{"summary": f"{len(words)} words", "words": len(words)}\n\n\ndef main():\n    '
    'try:\n        result = run(json.load(sys.stdin)["input"])\n    except (KeyError, '
    "ValueError) as error:\n        # code and message are what the model "
    'gets\n        result = {"status": "error", "code": "bad_input", "message": '
    "str(error)}\n    print(json.dumps(result))\n\n\nmain()\n"
)
SHELL = _(
    '#!/bin/sh\n# Reads {"call_id": ..., "input": {...}} on standard input, and '
    "prints one JSON object.\n# The working directory is the agent's workspace. For "
    "arguments in the input, use jq, or a Python tool.\nset -eu\ncat > /dev/null\n"
    "files=$(find . -path ./.choirtmp -prune -o -type f -print | wc -l)\nprintf "
    '\'{"summary": "%d files", "files": %d}\\n\' "$files" "$files"\n'
)
HTTP = _(
    '#!/usr/bin/env python3\n"""Fetches a page of one host. The proxy in HTTPS_PROXY '
    "is the only way to the network.\n\nIt lets this tool reach the `hosts` of the "
    'manifest, and no others.\n"""\n\nimport json\nimport sys\nimport urllib.error\nimport '
    'urllib.request\n\nADDRESS = "https://example.com"\nMAX_BYTES = 100_000\n\n\ndef '
    'run(arguments):\n    with urllib.request.urlopen(ADDRESS + arguments["path"], '
    'timeout=20) as answer:\n        text = answer.read(MAX_BYTES).decode("utf-8", '
    '"replace")\n        return {"summary": f"HTTP {answer.status}", "status_code": '
    'answer.status, "text": text}\n\n\ndef main():\n    try:\n        result = '
    'run(json.load(sys.stdin)["input"])\n    except urllib.error.HTTPError as '
    'error:\n        result = {"status": "error", "code": "http", "message": f"HTTP '
    '{error.code}"}\n    except (OSError, KeyError, ValueError) as error:\n        '
    'result = {"status": "error", "code": "unreachable", "message": str(error)}\n    '
    "print(json.dumps(result))\n\n\nmain()\n"
)


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """What `tool new` writes, except names."""

    program: str
    """Name of the program's file."""
    text: str
    description: str
    properties: Mapping[str, JsonValue]
    runtime: Mapping[str, JsonValue]
    test: JsonObject
    """A test case: the input, and what the output has at least."""


_TEXT: JsonValue = {"type": "string", "description": _("The text.")}
_PATH: JsonValue = {
    "type": "string",
    "pattern": "^/",
    "description": _("Path of the page, such as /."),
}
_OFFLINE: Mapping[str, JsonValue] = {"network": False}
_ONLINE: Mapping[str, JsonValue] = {"network": True, "hosts": ["example.com"], "origin": "web"}

TEMPLATES: Mapping[TemplateName, ToolTemplate] = {
    "python": ToolTemplate(
        "run.py",
        PYTHON,
        _("Count the words of a text."),
        {"text": _TEXT},
        {"side_effect": "none", **_OFFLINE, "private": False},
        {"input": {"text": _("three short words")}, "expect": {"words": 3}},
    ),
    "shell": ToolTemplate(
        "run.sh",
        SHELL,
        _("Count the files of the workspace."),
        {},
        {"side_effect": "read", **_OFFLINE, "private": True},
        {"input": {}, "expect": {}},
    ),
    "http": ToolTemplate(
        "run.py",
        HTTP,
        _("Fetch a page of example.com."),
        {"path": _PATH},
        {"side_effect": "read", **_ONLINE, "private": False},
        {"input": {"path": "/"}, "expect": {"status_code": 200}},
    ),
}


def manifest_text(template: ToolTemplate, name: str, folder: str) -> str:
    """Return the manifest of a tool whose program is in `folder`, beside the manifest."""
    manifest: JsonObject = {
        "llm": {
            "name": name,
            "description": template.description,
            "parameters": {
                "type": "object",
                "properties": {**template.properties},
                "required": [*template.properties],
                "additionalProperties": False,
            },
        },
        "runtime": {
            "exec_path": f"{folder}/{template.program}",
            "timeout_ms": 30_000,
            "idempotent": True,
            **template.runtime,
        },
    }
    return json.dumps(manifest, indent=2) + "\n"


def test_case_text(template: ToolTemplate) -> str:
    """Return the test case of a new tool."""
    return json.dumps(template.test, indent=2) + "\n"
