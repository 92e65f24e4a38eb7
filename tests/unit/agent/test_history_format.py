"""A refused request is asked again in other formats, and only what the model cannot do is remembered."""

import pytest

from choir_agent.prompt.history_format import HistoryFormat, holds_later

SEES = HistoryFormat("m", shows_pictures=True)


def test_a_model_with_vision_in_its_name_gets_the_formats_for_missing_fields_too() -> None:
    blind, plain, *_ = SEES.alternatives("llama-vision: reasoning_content must be sent", 7)
    assert not blind.shows_pictures
    assert (plain.shows_pictures, plain.plain_through) == (True, 7)


@pytest.mark.parametrize(
    ("refusal", "holds"),
    [
        ("No endpoints found that support image input", True),
        ("unknown variant `image_url`, expected `text`", True),
        ("Could not process image", False),
        ("messages.3.image: image exceeds 5 MB maximum", False),
    ],
)
def test_only_a_model_without_sight_is_remembered(refusal: str, holds: bool) -> None:
    blind, *_ = SEES.alternatives(refusal, 7)
    assert holds_later(blind, SEES, refusal) is holds
