"""Reference of the events of a session's log, made of the wire models."""

import ast
import inspect
import itertools
import re
from typing import Any, get_args

from pydantic import BaseModel

from choir_common.wire.events import Event, EventPayload

HEAD = """\
# Events of the log

Made of the wire models when the site is built. `choirctl session events ID` shows a session's events,
and `GET /v1/sessions/{session_id}/events` returns them.
[The log and recovery](../design/log-and-recovery.md) explains them.
"""


def event_reference() -> str:
    """Return the page as Markdown."""
    parts = [HEAD, _describe("The envelope", Event)]
    for model in get_args(get_args(EventPayload)[0]):
        (name,) = get_args(model.model_fields["type"].annotation)
        parts.append(_describe(name, model))
    return "\n".join(parts)


def _describe(title: str, model: type[BaseModel]) -> str:
    texts = field_texts(model)
    rows = [
        f"| `{field.alias or name}` | {type_name(field.annotation)} | "
        f"{'required' if field.is_required() else ''} | {texts.get(name, '')} |"
        for name, field in model.model_fields.items()
        if name != "type" or model is Event
    ]
    text = re.sub(r"\s+", " ", inspect.getdoc(model) or "").strip()
    table = "\n".join(["| field | type | | meaning |\n|---|---|---|---|", *rows]) if rows else ""
    return f"## {title}\n\n{text}\n\n{table}\n"


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field: the string that follows it in the source."""
    tree = ast.parse(inspect.getsource(model))
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)).body
    texts: dict[str, str] = {}
    for node, following in itertools.pairwise(body):
        match node, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = re.sub(r"\s+", " ", text).replace("|", r"\|").strip()
    return texts


def type_name(annotation: Any) -> str:
    """Return a type as a reader of JSON writes it."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = text if not get_args(annotation) else str(annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    for python, plain in (("str", "string"), ("int", "integer"), ("bool", "boolean")):
        text = re.sub(rf"\b{python}\b", plain, text)
    return f"`{text.replace(' | None', ' or null')}`".replace("|", r"\|")
