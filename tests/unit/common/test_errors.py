"""The error tree: an error crosses a boundary as an envelope or a problem, and comes back itself."""

import pytest

from choir_common.errors import (
    ChoirError,
    ErrorEnvelope,
    Fenced,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    from_envelope,
)
from choir_common.http.response_parser import read_problem
from choir_common.http.responses import problem_response


@pytest.mark.parametrize("kind", [NotFound, Fenced, OutcomeUnknown, RateLimited])
def test_an_error_comes_back_as_the_class_it_left_as(kind: type[ChoirError]) -> None:
    sent = kind("what, where, what to do", retry_after_s=2)
    back = from_envelope(ErrorEnvelope.model_validate_json(sent.envelope().model_dump_json()))
    assert type(back) is kind
    assert (back.message, back.retry_after_s) == (sent.message, 2)


def test_an_unknown_code_is_still_a_choir_error() -> None:
    back = from_envelope(ErrorEnvelope(code="from_the_future", message="hm"))
    assert type(back) is ChoirError


def test_a_problem_document_comes_back_as_its_error() -> None:
    response = problem_response(RateLimited("slow down", retry_after_s=7))
    assert response.headers["retry-after"] == "7"
    back = read_problem(response.status_code, bytes(response.body))
    assert isinstance(back, RateLimited)


def test_a_body_that_is_no_problem_document_is_an_internal_error() -> None:
    assert read_problem(502, b"<html>").code == "internal"
