"""Linker of the web page's modules: those of the first load become one file, in memory.

Over HTTP/1.1 each module is a request that waits for others, and a busy machine makes each wait long. So the
entry is served with all modules that it imports, each in a function of its own, in the order in which
browsers run them. Modules that are loaded later take them from there: a module exists once. It understands
the forms that our modules and the minified ones use, and refuses others; see docs/decisions/0089.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

_STATEMENT = r"(?:^|(?<=[;}]))"
IMPORT = re.compile(
    _STATEMENT
    + r'import\b\s*(?:(?P<names>\{[^}]*\}|\*\s*as\s+[\w$]+|[\w$]+)\s*from)?\s*"(?P<path>\.[^"]+)";?',
    re.MULTILINE,
)
EXPORT_LIST = re.compile(
    _STATEMENT + r'export\s*\{(?P<names>[^}]*)\}(?:\s*from\s*"(?P<path>\.[^"]+)")?;?', re.MULTILINE
)
EXPORT_DECLARATION = re.compile(
    r"^export (?=(?:async function\*?|function\*?|class|const) (?P<name>[\w$]+))", re.MULTILINE
)
EXPORT_DEFAULT = re.compile(_STATEMENT + r"export default (?=function\b|class\b)", re.MULTILINE)
DYNAMIC_IMPORT = re.compile(r'\bimport\("(?P<path>\.[^"]+)"\)')
OWN_ADDRESS = re.compile(r"\bimport\.meta\.url\b")
NOT_UNDERSTOOD = re.compile(_STATEMENT + r"(?:import\b(?!\s*[.(])|export\b).*", re.MULTILINE)
DEFAULT = "$default"


def link_modules(contents: Mapping[str, bytes], entry: str) -> dict[str, bytes]:
    """Return all files with the modules of the first load in the file `entry`, and no longer on their own.

    Keys are paths. Raises ValueError for a statement or a circle that the linker does not understand, and
    for an import of a name or of a module that does not exist.
    """
    sources = {path: text.decode() for path, text in contents.items() if path.endswith(".js")}
    first = list(_in_order(sources, entry, ()))
    exports = {path: _exported(sources[path]) for path in first}
    parts = [_wrap(path, sources[path], exports, entry) for path in first]
    parts.append(f"export {{{', '.join(map(_variable, first))}}};\n")
    files = {path: text for path, text in contents.items() if path not in first}
    for path in sources.keys() - set(first):
        files[path] = _take_from(path, sources[path], exports, entry).encode()
    return files | {entry: "".join(parts).encode()}


def _in_order(
    sources: Mapping[str, str], path: str, above: tuple[str, ...], visits: set[str] | None = None
) -> Iterator[str]:
    """Yield the modules that a module imports, and itself, each after those that it needs."""
    visits = set() if visits is None else visits
    if path in above:
        raise ValueError(f"Modules import each other in a circle: {' -> '.join((*above, path))}.")
    if path in visits:
        return
    visits.add(path)
    if path not in sources:
        raise ValueError(f"{above[-1] if above else 'The page'} imports {path}, which is missing.")
    for pattern in (IMPORT, EXPORT_LIST):
        for match in pattern.finditer(sources[path]):
            if match["path"]:
                target = _resolve(path, match["path"])
                yield from _in_order(sources, target, (*above, path), visits)
    yield path


def _exported(source: str) -> frozenset[str]:
    names = {it["name"] for it in EXPORT_DECLARATION.finditer(source)}
    for match in EXPORT_LIST.finditer(source):
        names |= {outside for outside, _ in _exported_names(match)}
    return frozenset(names | ({"default"} if EXPORT_DEFAULT.search(source) else set()))


def _wrap(path: str, source: str, exports: Mapping[str, frozenset[str]], entry: str) -> str:
    """Return a module as a function that returns what it exports."""
    results: list[str] = []

    def take_list(match: re.Match[str]) -> str:
        names = _exported_names(match)
        if not match["path"]:
            results.append(_render(names))
            return ""
        variable = _variable(_resolve(path, match["path"]))
        results.extend(f"{outside}: {variable}.{inside}" for outside, inside in names)
        return ""

    results += [it["name"] for it in EXPORT_DECLARATION.finditer(source)]
    body = IMPORT.sub(lambda match: _bind(match, path, exports), source)
    body = EXPORT_LIST.sub(take_list, body)
    body = EXPORT_DECLARATION.sub("", body)
    body, count = EXPORT_DEFAULT.subn(f"const {DEFAULT} = ", body)
    results += [f"default: {DEFAULT}"] * count
    body = _relocate(body, path, exports, entry)
    if match := NOT_UNDERSTOOD.search(body):
        raise ValueError(f"{path} has a form that the linker does not know: {match[0][:80]}")
    call = f"(() => {{\n{body}\nreturn {{{', '.join(results)}}};\n}})()"
    return f"// {path}\nconst {_variable(path)} = {call};\n"


def _take_from(path: str, source: str, exports: Mapping[str, frozenset[str]], entry: str) -> str:
    """Return a module that is loaded later, which takes modules of the first load from the entry."""
    address = _relative(path, entry)

    def take(match: re.Match[str]) -> str:
        target = _resolve(path, match["path"])
        if target not in exports:
            return match[0]
        return f'import {{{_variable(target)}}} from "{address}"; {_bind(match, path, exports)}'

    for pattern in (EXPORT_LIST, DYNAMIC_IMPORT):
        for match in pattern.finditer(source):
            if match["path"] and _resolve(path, match["path"]) in exports:
                raise ValueError(f"{path} has a form that the linker does not know: {match[0]}")
    return IMPORT.sub(take, source)


def _bind(match: re.Match[str], path: str, exports: Mapping[str, frozenset[str]]) -> str:
    """Return an import as a constant that takes the names from the module's variable."""
    target, names = _resolve(path, match["path"]), match["names"] or ""
    variable = _variable(target)
    if not names:
        return ""
    if names.startswith("*"):
        return f"const {names.removeprefix('*').split()[-1]} = {variable};"
    pairs = _pairs(names.strip("{}")) if names.startswith("{") else [("default", names)]
    if missing := {outside for outside, _ in pairs} - exports[target]:
        raise ValueError(f"{path} imports {', '.join(sorted(missing))}, which {target} has not.")
    return f"const {{{_render(pairs)}}} = {variable};"


def _exported_names(match: re.Match[str]) -> list[tuple[str, str]]:
    """Return the name outside and the name inside of each export of a list."""
    return [(outside, inside) for inside, outside in _pairs(match["names"])]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the names of `a, b as c`: the one before `as` and the one after it, or twice the same."""
    words = (re.split(r"\s+as\s+", part.strip()) for part in text.split(",") if part.strip())
    return [(names[0], names[-1]) for names in words]


def _render(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the inside of the braces of a pattern or of an object."""
    return ", ".join(
        outside if outside == inside else f"{outside}: {inside}" for outside, inside in pairs
    )


def _relocate(body: str, path: str, exports: Mapping[str, frozenset[str]], entry: str) -> str:
    """Change addresses that are relative to the module into those relative to the entry."""

    def move(match: re.Match[str]) -> str:
        target = _resolve(path, match["path"])
        if target in exports:
            raise ValueError(f"{path} imports {target} later, which is in the first load.")
        return f'import("{_relative(entry, target)}")'

    own = f'new URL("{_relative(entry, path)}", import.meta.url).href'
    return DYNAMIC_IMPORT.sub(move, OWN_ADDRESS.sub(own, body))


def _resolve(path: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), address))


def _relative(path: str, target: str) -> str:
    address = posixpath.relpath(target, posixpath.dirname(path))
    return address if address.startswith(".") else f"./{address}"


def _variable(path: str) -> str:
    """Return the variable of a module; by its name, so that versions are never mistaken for each other."""
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))
