"""Sentences of the source code that are not marked for translation."""

import ast
import re
from collections.abc import Iterator

SENTENCE = re.compile(r"[A-Za-z]{2,} (?:\S+ )*[a-z]{2,}")
MESSAGE_FUNCTIONS = {"_", "ngettext"}


def bare_sentences(node: ast.AST) -> Iterator[str]:
    """Yield the sentences outside messages: neither documentation, nor patterns, logs and operators' rows."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="help" | "epilog"):
            return
        case ast.Subscript(value=ast.Name(id="Annotated")) | ast.Assert():
            return
        case ast.Call() if name_of(node.func) in MESSAGE_FUNCTIONS or _is_for_programs(node):
            return
        case ast.Call(args=[summary, *_]) if name_of(node.func) == "CommandSpec":
            yield from bare_sentences(summary)
        case ast.Constant(value=str(text)) if SENTENCE.search(text) and not _is_no_text(text):
            yield text
        case ast.JoinedStr(values=values):
            parts = [it.value if isinstance(it, ast.Constant) else "{}" for it in values]
            text = "".join(map(str, parts))
            if SENTENCE.search(text) and not _is_no_text(text):
                yield text
        case _:
            for child in ast.iter_child_nodes(node):
                yield from bare_sentences(child)


def _is_for_programs(call: ast.Call) -> bool:
    name = name_of(call.func)
    if name == "CommandSpec":
        typed = len(call.args) > 2 or any(it.arg == "typed_form" for it in call.keywords)
        return not typed
    return name.startswith(("log.", "re.")) or name in {
        "AssertionError",
        "CommandEntry",
        "CommandSpec.for_operators",
        "self._refuse",
    }


def _is_no_text(text: str) -> bool:
    return text.startswith(("/", "pip install ")) or text.lstrip().startswith("SELECT ")


def name_of(function: ast.expr) -> str:
    """Return what is called, such as `log.info`."""
    return ast.unparse(function)
