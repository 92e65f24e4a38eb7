"""The language of choirctl's own words: that of the terminal, or `CHOIR_LANGUAGE`.

Messages are `choir_common.i18n.Message`: JSON and whatever is no message stay English. The catalogue is read
only for another language.
"""

import gettext
import os
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from choir_common.i18n import (
    DOMAIN,
    ENGLISH,
    LOCALES,
    READER_LANGUAGE,
    _,
    choose_language,
    load_catalogue,
    translate,
)
from choir_common.sentence_translation import translate_sentence

VARIABLES = ("CHOIR_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set names the language, as a tag or a locale."""
HELP_OPTION = _("Show this message and exit.")
EXAMPLE = _("Example: {example}")
USAGE = _("Usage: {words}")
PLACEHOLDERS = (_("[OPTIONS]"), _("COMMAND [ARGS]..."))
"""What stands for any options, and for a subcommand with its own."""


def choose_own_language() -> None:
    """Use the language of the environment for all words to the user from here on."""
    READER_LANGUAGE.set(choose_language(next(filter(None, map(os.environ.get, VARIABLES)), "")))


def tr(text: str) -> str:
    """Return a message in the language of the user; a text that is no message stays as it is."""
    return translate(text, READER_LANGUAGE.get())


def server_text(text: str) -> str:
    """Return a sentence of a service in the language of the user; what Choir did not say stays as it is.

    Services send English without the template; see `choir_common.sentence_translation`.
    """
    return translate_sentence(tr(text), READER_LANGUAGE.get())


def translate_help(command: TyperGroup) -> None:
    """Put the help of a command, and of its subcommands, into the language of the user."""
    language = READER_LANGUAGE.get()
    if language == ENGLISH:
        return
    # typer's own words, such as the headings, are looked up in the domain of the process
    os.environ["LANGUAGE"] = language
    gettext.bindtextdomain(DOMAIN, str(LOCALES))
    gettext.textdomain(DOMAIN)
    # the contexts of commands are of the base class, which typer does not export
    base = next(it for it in typer.Context.__mro__ if "formatter_class" in vars(it))
    base.formatter_class = _translated_formatter()  # type: ignore[attr-defined]
    catalogue = load_catalogue(language)
    root = typer.Context(command, **command.context_settings)
    for context in _contexts(root):
        part = context.command
        part.help = part.help and catalogue.gettext(part.help)
        part.epilog = part.epilog and _translate_epilog(part.epilog, language)
        for it in (*part.params, part.get_help_option(context)):
            if isinstance(it, TyperOption | TyperArgument) and it.help:
                it.help = catalogue.gettext(it.help)


def _translated_formatter() -> type:
    """Return typer's formatter with the words of the usage in the language of the user."""

    class Formatter(typer.Context.formatter_class):  # type: ignore[valid-type,misc]
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            for words in PLACEHOLDERS:
                args = args.replace(str(words), tr(words))
            super().write_usage(prog, args, prefix or tr(USAGE.format(words="")))

    return Formatter


def help_texts(command: TyperGroup) -> Iterator[tuple[str, str]]:
    """Yield all texts that `translate_help` looks up, each with the path of its command."""
    for context in _contexts(typer.Context(command, **command.context_settings)):
        part = context.command
        texts = [part.help, part.epilog]
        texts += [it.help for it in part.params if isinstance(it, TyperOption | TyperArgument)]
        for text in filter(None, texts):
            if not text.startswith(_example_prefix()):
                yield text, context.command_path


def _contexts(context: typer.Context) -> Iterator[typer.Context]:
    yield context
    for name, below in getattr(context.command, "commands", {}).items():
        yield from _contexts(typer.Context(below, parent=context, info_name=name))


def _translate_epilog(epilog: str, language: str) -> str:
    prefix = _example_prefix()
    if epilog.startswith(prefix):
        return translate(EXAMPLE.format(example=epilog.removeprefix(prefix)), language)
    return load_catalogue(language).gettext(epilog)


def _example_prefix() -> str:
    return str(EXAMPLE.format(example=""))
