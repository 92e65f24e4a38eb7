"""Pages of the site: which files of the repository they are, and where their links lead."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
SITE_SETTINGS = Path(__file__).parent / "mkdocs.yml"
NAV = Path(__file__).parent / "nav.yml"
GENERATED = frozenset(f"docs/reference/{name}.md" for name in ("cli", "http", "events"))
OTHER_GUIDES = "More guides"
"""The section of guides in `docs/` that `nav.yml` does not name."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^([ \t]*(?:```|~~~)).*?^\1", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`[^`\n]+`")
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*:")
_FOLDERS_OF_PAGES = ("docs/decisions", "docs/design", "docs/development")


@dataclass(frozen=True, slots=True)
class SitePages:
    """The pages of the site."""

    targets: dict[str, str]
    """From the path in the repository to the path in the site."""
    nav: list[Any]
    """The navigation as MkDocs reads it, with paths of the site."""

    @classmethod
    def load(cls) -> "SitePages":
        """Read `nav.yml`, and add the guides and folders of pages that it does not list one by one."""
        nav: list[Any] = yaml.safe_load(NAV.read_text())
        named = set(_paths(nav))
        others = sorted(
            path for path in _markdown("docs") if "/" not in path[5:] and path not in named
        )
        if others:
            nav.append({OTHER_GUIDES: list(others)})
        targets = {path: site_path(path) for path in (*named, *others)}
        for folder in _FOLDERS_OF_PAGES:
            targets.update({path: site_path(path) for path in _markdown(folder)})
        return cls(targets, [_with_targets(item, targets) for item in nav])


def site_path(path: str) -> str:
    """Return the place of a file of the repository in the site."""
    match path.split("/"):
        case ["docs", "start", "index.md"]:
            return "index.md"
        case ["docs", *rest]:
            return "/".join(rest)
        case ["services" | "libs" | "deploy" as kind, name, "README.md"]:
            return f"development/{kind}/{name}.md"
        case ["examples", *rest]:
            return "/".join(["examples", *rest]).replace("README.md", "index.md")
        case _:
            return path.lower()


def assets() -> dict[str, str]:
    """Return the pictures of the site: from the path in the repository to that in the site."""
    found = [
        file.relative_to(ROOT).as_posix()
        for ending in ("png", "webp", "svg", "json")
        for file in (ROOT / "docs").rglob(f"*.{ending}")
    ]
    return {path: site_path(path) for path in sorted(found)}


def rewrite_links(text: str, *, source: str, pages: SitePages) -> str:
    """Return a page whose links lead to pages of the site; links to other files become their text."""
    known = pages.targets | assets()
    base = Path(pages.targets[source]).parent

    def rewrite(match: re.Match[str]) -> str:
        picture, words, target, anchor = match.groups(default="")
        if not target or _ADDRESS.match(target):
            return match.group()
        path = Path(os.path.normpath((ROOT / source).parent / target)).relative_to(ROOT).as_posix()
        path = path if path in known else f"{path}/README.md"
        if path not in known:
            return words if not picture else ""
        place = Path(os.path.relpath(known[path], base)).as_posix()
        return f"{picture}[{_nested(words, rewrite)}]({place}{anchor})"

    return outside_code(text, lambda part: _LINK.sub(rewrite, part))


def _nested(words: str, rewrite: Any) -> str:
    return _LINK.sub(rewrite, words)


def outside_code(text: str, change: Any) -> str:
    """Return a Markdown text, changed everywhere but in fenced blocks and code spans."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_outside_spans(text[end : fence.start()], change), fence.group()]
        end = fence.end()
    return "".join([*parts, _outside_spans(text[end:], change)])


def _outside_spans(text: str, change: Any) -> str:
    spans: list[str] = []

    def hide(match: re.Match[str]) -> str:
        spans.append(match.group())
        return f"\0{len(spans) - 1}\0"

    changed: str = change(_SPAN.sub(hide, text))
    return re.sub(r"\0(\d+)\0", lambda match: spans[int(match.group(1))], changed)


def foreign_requests(page: str) -> list[str]:
    """Return the addresses of other servers from which a built page loads something."""
    loading = re.compile(
        r"<(?:script|img|iframe|link|source|video)\b[^>]*?\b(?:src|href)=[\"']?(https?:[^\"' >]+)[^>]*>"
    )
    return [match[1] for match in loading.finditer(page) if 'rel="canonical"' not in match.group()]


def config_page(text: str) -> str:
    """Return the table of settings in a part for each first word, so that it can be read on a page."""
    head, _, rows = text.partition("|---|---|---|---|---|---|\n")
    intro, _, columns = head.rpartition("\n| ")
    parts: dict[str, list[str]] = {}
    for row in rows.splitlines():
        parts.setdefault(re.split(r"[.`\[]", row[3:])[0], []).append(row)
    tables = "".join(
        f"\n## {name}\n\n| {columns.strip()}\n|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
        for name, lines in parts.items()
    )
    return f"{intro}\n{tables}"


def _markdown(folder: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).glob("*.md"))]


def _paths(item: Any) -> Iterator[str]:
    match item:
        case str():
            yield item
        case dict():
            for inner in item.values():
                yield from _paths(inner)
        case list():
            for inner in item:
                yield from _paths(inner)


def _with_targets(item: Any, targets: dict[str, str]) -> Any:
    match item:
        case str():
            return targets[item]
        case dict():
            return {name: _with_targets(inner, targets) for name, inner in item.items()}
        case list():
            return [_with_targets(inner, targets) for inner in item]
