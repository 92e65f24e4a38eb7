"""Assembly of a streamed chat completion into the body of a response without streaming. Pure.

Every field of a delta is kept, whatever its name: text is joined, objects are merged, list items are joined
by their `index`. The assembled body is read like any other response, so both ways give the same completion.
"""

import json
import re

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject

END = "[DONE]"
# Servers repeat these in every delta; the last value counts.
_REPEATED = frozenset({"id", "type", "role", "index", "format", "object"})
_SURROGATE = re.compile("[\ud800-\udfff]")


class StreamedCompletion:
    """The parts of a stream that have arrived."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._head: JsonObject = {}
        self._finish_reason: JsonValue = None
        self._has_choice = False
        self.is_complete = False
        """Whether the model has ended; otherwise the connection was cut."""
        self.hidden_characters = 0
        """The length of the output that is no text: thoughts, calls."""

    def add(self, data: str) -> str:
        """Add the data of one event; return the text that it adds to the answer.

        Raises ValueError if it is not JSON.
        """
        if data.strip() == END:
            self.is_complete = True
            return ""
        chunk = _load(data)
        if not isinstance(chunk, dict):
            raise ValueError("a chunk of the stream is not an object")
        if chunk.get("error"):
            self.is_complete = True
        self._head |= {
            name: value for name, value in chunk.items() if name != "choices" and value is not None
        }
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        return self._add_choice(choice) if isinstance(choice, dict) else ""

    def body(self) -> bytes:
        """Return the body of the response; after an error of the provider it contains no answer."""
        if self._head.get("error"):
            return orjson.dumps({"error": self._head["error"]})
        message = dict(self._message)
        calls: list[JsonValue] = [*self._calls]
        if calls:
            message["tool_calls"] = calls
        choice: JsonObject = {"message": message, "finish_reason": self._finish_reason}
        choices: list[JsonValue] = [choice] if self._has_choice else []
        return _dump({**self._head, "choices": choices})

    def _add_choice(self, choice: JsonObject) -> str:
        self._has_choice = True
        if choice.get("error"):
            self._head["error"] = choice["error"]
        if choice.get("finish_reason") is not None:
            self._finish_reason = choice["finish_reason"]
            self.is_complete = True
        # Some servers send the last part as a whole message.
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return ""
        calls = delta.pop("tool_calls", None)
        content = delta.pop("content", None)
        self.hidden_characters += _text_length(calls) + _text_length(delta)
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._add_call(call)
        _merge(self._message, delta)
        if content is not None:
            self._message["content"] = _join_content(self._message.get("content"), content)
        return content_text(content)

    def _add_call(self, part: JsonObject) -> None:
        call = self._find_call(part)
        if call is None:
            self._calls.append(part)
            return
        function, more = call.get("function"), part.pop("function", None)
        if isinstance(function, dict) and isinstance(more, dict):
            # A server that repeats the name does not mean a longer name.
            if more.get("name") == function.get("name"):
                more.pop("name", None)
            _merge(function, more)
        elif isinstance(more, dict):
            call["function"] = more
        _merge(call, part)

    def _find_call(self, part: JsonObject) -> JsonObject | None:
        """Return the call that a part continues; None if it begins a new one.

        Some servers send complete calls without an index, or all with index 0, but each with its own id.
        """
        index, id_ = part.get("index"), part.get("id")
        same = [call for call in self._calls if index is None or call.get("index") == index]
        if not same or (id_ and same[-1].get("id") not in (None, "", id_)):
            return None
        function = part.get("function")
        begins = index is None and not id_ and isinstance(function, dict) and function.get("name")
        return None if begins else same[-1]


def content_text(content: JsonValue) -> str:
    """Return the text of a message's content, which is text or a list of parts."""
    match content:
        case str():
            return content
        case list():
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            return "".join(part for part in parts if isinstance(part, str))
    return ""


def _text_length(value: JsonValue) -> int:
    """Return the characters of all texts in a value, but for the fields that each delta repeats."""
    match value:
        case str():
            return len(value)
        case list():
            return sum(map(_text_length, value))
        case dict():
            return sum(_text_length(value[name]) for name in value.keys() - _REPEATED)
    return 0


def _merge(target: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        before = target.get(name)
        if value is None:
            continue
        if name in _REPEATED or before is None:
            target[name] = value
        elif isinstance(before, str) and isinstance(value, str):
            target[name] = before + value
        elif isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            _merge_items(before, value)
        else:
            target[name] = value


def _merge_items(target: list[JsonValue], more: list[JsonValue]) -> None:
    """Join items that have the same index and type; append the others."""
    for item in more:
        same = _with_index(target, item) if isinstance(item, dict) else None
        if isinstance(item, dict) and same is not None:
            _merge(same, item)
        else:
            target.append(item)


def _with_index(items: list[JsonValue], like: JsonObject) -> JsonObject | None:
    if like.get("index") is None:
        return None
    for item in items:
        if isinstance(item, dict) and item.get("index") == like["index"]:
            return item if like.get("type") in (None, item.get("type")) else None
    return None


def _join_content(before: JsonValue, more: JsonValue) -> JsonValue:
    """Join the content so far with that of a delta; parts are joined if they contain only text."""
    if before is None or before == "":
        return more
    if isinstance(before, str) and isinstance(more, str):
        return before + more
    return [*_parts(before), *_parts(more)]


def _parts(content: JsonValue) -> list[JsonValue]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _load(data: str) -> JsonValue:
    try:
        chunk: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError:
        # A character outside of the basic plane may be cut into two halves, which orjson refuses.
        chunk = json.loads(data)
    return chunk


def _dump(document: JsonObject) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:
        text = json.dumps(document, ensure_ascii=False)
        # Halves of a character that arrived in two deltas are one character again.
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _SURROGATE.sub("\ufffd", joined).encode()
