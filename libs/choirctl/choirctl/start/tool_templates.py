"""Templates of `choirctl tool new`: a manifest, a program and a test case. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

TemplateName = Literal["python", "shell", "http"]

PYTHON = '''#!/usr/bin/env python3
"""Reads {"call_id": …, "input": {…}} on standard input, and prints one JSON object.

What it writes to standard error is shown by `choirctl tool try`, and is in the agent's log.
"""

import json
import sys


def run(arguments):
    words = arguments["text"].split()
    return {"summary": f"{len(words)} words", "words": len(words)}


def main():
    try:
        result = run(json.load(sys.stdin)["input"])
    except (KeyError, ValueError) as error:
        # code and message are what the model gets
        result = {"status": "error", "code": "bad_input", "message": str(error)}
    print(json.dumps(result))


main()
'''
SHELL = """#!/bin/sh
# Reads {"call_id": ..., "input": {...}} on standard input, and prints one JSON object.
# The working directory is the agent's workspace. For arguments in the input, use jq, or a Python tool.
set -eu
cat > /dev/null
files=$(find . -path ./.choirtmp -prune -o -type f -print | wc -l)
printf '{"summary": "%d files", "files": %d}\\n' "$files" "$files"
"""
HTTP = '''#!/usr/bin/env python3
"""Fetches a page of one host. The proxy in HTTPS_PROXY is the only way to the network.

It lets this tool reach the `hosts` of the manifest, and no others.
"""

import json
import sys
import urllib.error
import urllib.request

ADDRESS = "https://example.com"
MAX_BYTES = 100_000


def run(arguments):
    with urllib.request.urlopen(ADDRESS + arguments["path"], timeout=20) as answer:
        text = answer.read(MAX_BYTES).decode("utf-8", "replace")
        return {"summary": f"HTTP {answer.status}", "status_code": answer.status, "text": text}


def main():
    try:
        result = run(json.load(sys.stdin)["input"])
    except urllib.error.HTTPError as error:
        result = {"status": "error", "code": "http", "message": f"HTTP {error.code}"}
    except (OSError, KeyError, ValueError) as error:
        result = {"status": "error", "code": "unreachable", "message": str(error)}
    print(json.dumps(result))


main()
'''


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


_TEXT: JsonValue = {"type": "string", "description": "The text."}
_PATH: JsonValue = {
    "type": "string",
    "pattern": "^/",
    "description": "Path of the page, such as /.",
}
_OFFLINE: Mapping[str, JsonValue] = {"network": False}
_ONLINE: Mapping[str, JsonValue] = {"network": True, "hosts": ["example.com"], "origin": "web"}

TEMPLATES: Mapping[TemplateName, ToolTemplate] = {
    "python": ToolTemplate(
        "run.py",
        PYTHON,
        "Count the words of a text.",
        {"text": _TEXT},
        {"side_effect": "none", **_OFFLINE, "private": False},
        {"input": {"text": "three short words"}, "expect": {"words": 3}},
    ),
    "shell": ToolTemplate(
        "run.sh",
        SHELL,
        "Count the files of the workspace.",
        {},
        {"side_effect": "read", **_OFFLINE, "private": True},
        {"input": {}, "expect": {}},
    ),
    "http": ToolTemplate(
        "run.py",
        HTTP,
        "Fetch a page of example.com.",
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
