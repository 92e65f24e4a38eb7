"""Histories as the agent renders them, and a listener that records what it hears."""

import orjson

from choir_common.wire.model import JsonObject
from choir_models.model import Completion, Prompt

TOOL_NAMES = ("fs_read", "fs_list", "web_search", "memory_query", "sh_run")
TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"The tool {name}.",
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": ["string", "null"]}},
                    "additionalProperties": False,
                },
            },
        }
        for name in TOOL_NAMES
    ]
)
SYSTEM: JsonObject = {"role": "system", "content": "You are an agent."}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJSVFT0YK"


class Recorder:
    """A listener that records what it hears."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add_text(self, text: str) -> None:
        self.texts.append(text)

    def add_hidden(self, characters: int) -> None:
        """Nothing to record."""

    def restart(self) -> None:
        self.texts.clear()


def user(text: str) -> JsonObject:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def image(data: str = PIXEL, mime: str = "image/png") -> JsonObject:
    """Return an image part."""
    return {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}}


def pdf() -> JsonObject:
    """Return a document part."""
    file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    return {"type": "file", "file": file}


def assistant(completion: Completion, number: int = 1) -> JsonObject:
    """Return an output as the agent sends it back to the model that made it."""
    message: JsonObject = {"role": "assistant", "content": completion.text or None}
    if completion.calls:
        message["tool_calls"] = [
            {
                **call.fields,
                "id": f"call_{number}_{place}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for place, call in enumerate(completion.calls)
        ]
    return {**message, **completion.fields}


def results(completion: Completion, number: int = 1) -> list[JsonObject]:
    """Return the results of an output's calls."""
    return [
        {
            "role": "tool",
            "tool_call_id": f"call_{number}_{place}",
            "content": orjson.dumps({"status": "success", "output": {"n": place}}).decode(),
        }
        for place in range(len(completion.calls))
    ]


def prompt(*messages: JsonObject, tools: bytes = TOOLS, json_only: bool = False) -> Prompt:
    """Return a prompt of these messages."""
    return Prompt(tuple(map(orjson.dumps, messages)), tools, json_only)
