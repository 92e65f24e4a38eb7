"""Message catalogues: collect the texts of the code, compile the translations, and check both.

`python -m scripts.translations` updates each `choir.po` from the sources and writes its `choir.mo`, which is
committed, so that an installation compiles nothing. See docs/how-to/translate.md.
"""

import ast
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from typer.core import TyperGroup
from typer.main import get_command

from choir_common.i18n import DOMAIN, ENGLISH, LANGUAGES, LOCALES, fields_of
from choir_common.wire.validation_messages import RULES
from choirctl.app import COMMANDS, build_app
from choirctl.output.language import help_texts

ROOT = Path(__file__).parents[1]
SOURCES = (
    "libs/choir_common/choir_common",
    "services/control/choir_control",
    "services/gateway/choir_gateway",
    "services/memory/choir_memory",
    "services/browser/choir_browser",
    "services/agent/choir_agent",
    "services/egress/choir_egress",
    "libs/choirctl/choirctl",
    "libs/choir_client/choir_client",
    "libs/choir_models/choir_models",
    "deploy/local/choir_local",
)
MODULES = ("choir_common.i18n", "choir_common.confinement.words")
"""Those that have the mark `_`."""
TYPER_TEXTS = (
    "Arguments",
    "Commands",
    "Missing command.",
    "No such command {name!r}.",
    "Options",
    "default: {default}",
    "required",
)
"""Words of typer that it looks up by gettext."""


@dataclass(frozen=True, slots=True)
class CatalogueFiles:
    """The files of one language."""

    language: str

    @property
    def po(self) -> Path:
        """Return the file that translators edit."""
        return LOCALES / self.language / "LC_MESSAGES" / f"{DOMAIN}.po"

    @property
    def mo(self) -> Path:
        """Return the compiled file that is read at run time."""
        return self.po.with_suffix(".mo")

    def read(self) -> Catalog:
        """Return the translations; an empty catalogue if there are none yet."""
        if not self.po.exists():
            return Catalog(locale=self.language, fuzzy=False)
        with self.po.open("rb") as file:
            return read_po(file, locale=self.language)


def catalogue_files() -> list[CatalogueFiles]:
    """Return the files of each language except English, whose texts are those of the code."""
    return [CatalogueFiles(language) for language in LANGUAGES if language != ENGLISH]


def collect() -> Catalog:
    """Return all texts of the sources, each with the file that says it."""
    template = Catalog(fuzzy=False)
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            if any(module in source for module in MODULES):
                for text in marked_texts(ast.parse(source)):
                    # without line numbers: a moved line is no change of the catalogue
                    template.add(text, locations=[(str(path.relative_to(ROOT)), 0)])
    for help_text, command in _help_of_choirctl():
        template.add(help_text, locations=[(f"choirctl: {command}", 0)])
    for text in TYPER_TEXTS:
        template.add(text, locations=[("typer", 0)])
    for text in RULES.values():
        template.add(
            text, locations=[("libs/choir_common/choir_common/wire/validation_messages.py", 0)]
        )
    return template


def marked_texts(tree: ast.AST) -> Iterator[str | tuple[str, str]]:
    """Yield the arguments of `_` and `ngettext`, which must be literals; Babel misses those in f-strings."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="_"), args=[ast.Constant(value=str(text))]):
                yield text
            case ast.Call(
                func=ast.Name(id="ngettext"),
                args=[ast.Constant(value=str(one)), ast.Constant(value=str(many)), *_rest],
            ):
                yield one, many
            case ast.Call(func=ast.Name(id="_" | "ngettext"), args=[_first, *_rest]):
                raise ValueError(f"no literal, so it has no translation: {ast.unparse(node)}")


def _help_of_choirctl() -> Iterator[tuple[str, str]]:
    """Yield the help texts of all commands; typer collects them from docstrings and options."""
    yield from ((entry.help, "choirctl") for entry in COMMANDS)
    command = get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(command, TyperGroup)
    yield from help_texts(command)


def update(files: CatalogueFiles, template: Catalog) -> Catalog:
    """Return the translations for exactly the texts of the sources; new ones are empty, none is guessed."""
    old, new = files.read(), Catalog(locale=files.language, fuzzy=False)
    for text in sorted(template, key=_identity):
        if not text.id:
            continue
        translated = old.get(text.id, text.context)
        strings = translated.string if translated and not translated.fuzzy else ""
        places = sorted({(path, 0) for path, _line in text.locations})
        new.add(text.id, strings, locations=places, context=text.context)
    return new


def find_faults(catalogue: Catalog) -> Iterator[str]:
    """Yield what is missing or wrong in a catalogue, a sentence each."""
    for text in catalogue:
        if not text.id:
            continue
        if not all(_strings(text)):
            yield f"not translated: {_identity(text)}"
            continue
        english = frozenset[str]().union(*map(fields_of, _templates(text)))
        for translation in _strings(text):
            # the German singular may write the number as a word
            if fields_of(translation) - {"count"} != english - {"count"}:
                yield f"other fields than in English: {translation}"


def render_po(catalogue: Catalog) -> bytes:
    """Return the file for translators: sorted, without times and line numbers, so that it is stable."""
    file = io.BytesIO()
    write_po(file, catalogue, width=110, omit_header=True, include_lineno=False, sort_output=False)
    header = (
        f"# Translations of Choir's messages: {catalogue.locale_identifier}. See docs/how-to/translate.md.\n"
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
        f'"Language: {catalogue.locale_identifier}\\n"\n"Plural-Forms: {catalogue.plural_forms}\\n"\n\n'
    )
    return header.encode() + file.getvalue()


def render_mo(catalogue: Catalog) -> bytes:
    """Return the compiled file; equal catalogues give equal bytes."""
    file = io.BytesIO()
    stable = Catalog(locale=catalogue.locale, fuzzy=False)
    stable.creation_date = stable.revision_date = datetime(2026, 1, 1, tzinfo=UTC)
    for text in catalogue:
        if text.id:
            stable.add(text.id, text.string, context=text.context)
    write_mo(file, stable)
    return file.getvalue()


def _templates(text: Message) -> tuple[str, ...]:
    return tuple(text.id) if isinstance(text.id, tuple | list) else (text.id,)


def _strings(text: Message) -> tuple[str, ...]:
    return tuple(text.string) if isinstance(text.string, tuple | list) else (text.string or "",)


def _identity(text: Message) -> str:
    return _templates(text)[0] if text.id else ""


def main() -> int:
    """Write the catalogues and print what is left to translate."""
    template, faults = collect(), 0
    for files in catalogue_files():
        catalogue = update(files, template)
        files.po.parent.mkdir(parents=True, exist_ok=True)
        files.po.write_bytes(render_po(catalogue))
        files.mo.write_bytes(render_mo(catalogue))
        for fault in find_faults(catalogue):
            print(f"{files.language}: {fault}")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
