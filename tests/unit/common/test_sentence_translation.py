"""Sentences of services are recognized by their templates; other people's words stay as they are."""

import pytest

from choir_common import sentence_translation
from choir_common.i18n import LANGUAGES, Message, _, ngettext
from choir_common.sentence_translation import MAX_LENGTH, MAX_LOOKUPS, translate_sentence

CGROUP = _("{base} has no controller {lacking}").format(base="/sys/fs/cgroup", lacking="memory")
LIMITS = _(
    "tool calls are limited by a check four times a second, and their processor time by priority only: "
    "{error}"
)
SENTENCES: tuple[Message, ...] = (
    _("the database is read-only"),
    CGROUP,
    # a sentence inside another, as control composes the detail of a part
    LIMITS.format(error=CGROUP),
    _("{reason} (next start in {pause_s:.0f} s)").format(
        reason=_("it closed its output"), pause_s=2.6
    ),
    # both forms of a plural, whose English gettext does not keep
    ngettext("{count} session waits to be archived", "{count} sessions wait to be archived", 1),
    ngettext("{count} session waits to be archived", "{count} sessions wait to be archived", 7),
)


@pytest.mark.parametrize("message", SENTENCES, ids=str)
def test_a_sentence_that_crossed_a_wire_is_translated_as_the_message_would_be(
    message: Message,
) -> None:
    english = str(message)
    assert translate_sentence(english, "de") == message.in_language("de") != english
    assert translate_sentence(english, "en") == english


@pytest.mark.parametrize("separator", ["; ", "\n", ": "])
def test_sentences_are_translated_one_by_one_and_unknown_ones_stay(separator: str) -> None:
    english = separator.join(("the database is read-only", "something a plug-in says", str(CGROUP)))
    translated = separator.join(
        (SENTENCES[0].in_language("de"), "something a plug-in says", CGROUP.in_language("de"))
    )
    assert translate_sentence(english, "de") == translated


@pytest.mark.parametrize(
    "text", ["", " ", "/usr/bin/chromium", "main: hello", "Grüße", "x" * (MAX_LENGTH + 1)]
)
def test_what_choir_did_not_say_stays(text: str) -> None:
    assert {translate_sentence(text, it) for it in (*LANGUAGES, "xx")} == {text}


@pytest.mark.parametrize(
    "part", ["a b, ", "can not: ", "x y: z, w; ", "(: ", "namespaces (", "A b. "]
)
def test_a_text_chosen_to_take_long_ends_after_a_bounded_number_of_looks(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    templates = sentence_translation._Sentences._candidates
    monkeypatch.setattr(
        sentence_translation._Sentences,
        "_candidates",
        lambda self, text: looks.append(text) or templates(self, text),
    )
    translate_sentence((part * MAX_LENGTH)[:MAX_LENGTH], "de")
    assert len(looks) <= MAX_LOOKUPS


def test_a_name_inside_a_sentence_is_not_translated() -> None:
    """An agent may have the name of a state."""
    english = str(_("{dm} is not bound: {message}").format(dm="running", message="x"))
    assert translate_sentence(english, "de").startswith("running ")


def test_a_sentence_keeps_its_separators_inside_a_list_of_sentences() -> None:
    """`status` shows such a text where the host lacks walls."""
    walls = (
        _("users of their own ({error}): agents run as root").format(error="[Errno 17] a: 'x'"),
        _("idle; starts on the first page ({program})").format(program="/usr/bin/chromium"),
    )
    english = "this host lacks: " + "; ".join(map(str, walls))
    translated = "; ".join(it.in_language("de") for it in walls)
    assert (
        translate_sentence(english, "de")
        == f"{_('this host lacks').in_language('de')}: {translated}"
    )
