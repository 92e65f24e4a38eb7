"""Playwright's errors as Choir's: which of them a load is tried again for."""

import pytest
from playwright.async_api import Error

from choir_browser.pages.error_translation import NavigationInterrupted, translate_error

URL = "http://site.example/"


@pytest.mark.parametrize(
    "text",
    [
        f"Page.goto: net::ERR_NETWORK_CHANGED at {URL}",
        f'Page.goto: Navigation to "{URL}" is interrupted by another navigation to "{URL}x"',
    ],
)
def test_a_load_that_something_else_stopped_is_tried_again(text: str) -> None:
    assert isinstance(translate_error(Error(text), URL), NavigationInterrupted)


def test_a_page_that_does_not_exist_is_not_tried_again() -> None:
    error = translate_error(Error(f"Page.goto: net::ERR_NAME_NOT_RESOLVED at {URL}"), URL)
    assert not isinstance(error, NavigationInterrupted)
    assert "ERR_NAME_NOT_RESOLVED" in error.message
