"""Messages: English for programs, and in the reader's language for people."""

import json

import orjson
import pytest
from starlette.requests import Request

from choir_common.errors import NotFound
from choir_common.http.responses import render_choir_error
from choir_common.i18n import _, choose_language, join, ngettext, translate
from choir_common.wire.button_labels import APPROVE, in_all_languages

STOPPED = _("{agent} has stopped.").format(agent="main")


def test_a_message_is_its_english_text_wherever_nobody_translates_it() -> None:
    assert STOPPED == "main has stopped." and f"{STOPPED}" == "main has stopped."
    assert orjson.dumps({"text": STOPPED}) == b'{"text":"main has stopped."}'
    assert translate(STOPPED, "en") == STOPPED
    assert translate(STOPPED, "fr") == STOPPED, "no catalogue"
    assert translate("a plain text", "de") == "a plain text"


def test_a_message_is_translated_with_the_messages_in_it_and_joined_to_it() -> None:
    count = ngettext("{count} call", "{count} calls", 1)
    rest = _("{calls} of unknown price ({tokens:,} tokens)").format(calls=count, tokens=12_000)
    assert rest == "1 call of unknown price (12,000 tokens)"
    assert translate(rest, "de") == "1 Aufruf mit unbekanntem Preis (12,000 Tokens)"
    assert translate(join("\n", (STOPPED, "main: x")), "de") == "main ist gestoppt.\nmain: x"
    assert translate("Choir: " + STOPPED + "!", "de") == "Choir: main ist gestoppt.!"


def test_a_value_is_never_read_as_a_template() -> None:
    text = _("{agent} has stopped.").format(agent="{agent.__class__}")
    assert translate(text, "de") == "{agent.__class__} ist gestoppt."


@pytest.mark.parametrize(
    ("tags", "language"),
    [
        (("de",), "de"),
        (("DE_at.UTF-8",), "de"),
        (("", "fr", "de-AT"), "de"),
        ((), "en"),
        (("en-GB", "de"), "en"),
        (("C.UTF-8", "deutsch"), "en"),
    ],
)
def test_the_first_known_language_is_chosen(tags: tuple[str, ...], language: str) -> None:
    assert choose_language(*tags) == language


def test_a_button_is_recognized_in_each_language() -> None:
    assert in_all_languages(APPROVE) == {"Approve", "Freigeben"}


@pytest.mark.parametrize(("header", "detail"), [("de", "Freigegeben."), ("fr", "Approved.")])
async def test_an_error_is_in_the_language_that_the_request_names(header: str, detail: str) -> None:
    request = Request({"type": "http", "headers": [(b"x-choir-language", header.encode())]})
    response = await render_choir_error(request, NotFound(_("Approved.")))
    assert json.loads(bytes(response.body))["detail"] == detail
