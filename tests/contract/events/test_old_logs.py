"""Every log that was ever written still loads: the lines of golden.jsonl are never edited, only added to.

Each type stands there with its required fields alone, as an old log has it, and with all its fields.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from choir_common.eventlog.chain import LogHead, find_break, head_of, link_event
from choir_common.wire.events import Event, EventPayload, parse_payload, render_payload

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GOLDEN = Path(__file__).parent / "golden.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def event(line: dict[str, Any]) -> Event:
    return Event(
        session_id="ses_1",
        rev=1,
        lane="edge",
        type=line["type"],
        payload=line["payload"],
        at="2026-11-21T08:00:00.000000Z",
        hash_prev="0" * 64,
        hash="0" * 64,
    )


def within(small: Any, large: Any) -> bool:
    """Tell whether all that `small` says, `large` says too."""
    match small:
        case dict():
            return all(key in large and within(value, large[key]) for key, value in small.items())
        case list():
            return len(small) == len(large) and all(map(within, small, large))
        case _:
            return bool(small == large)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["type"])
def test_an_event_of_an_old_log_loads_and_loses_nothing(line: dict[str, Any]) -> None:
    loaded = parse_payload(event(line))
    assert loaded.type == line["type"]
    assert within(line["payload"], render_payload(loaded))


def test_every_type_of_event_has_its_golden_lines() -> None:
    union = get_args(EventPayload)[0]
    types = {member.model_fields["type"].default for member in get_args(union)}
    assert {line["type"] for line in LINES} == types


def test_the_chain_of_all_of_them_holds() -> None:
    head, events = LogHead(), []
    for line in LINES:
        events.append(link_event(head, "ses_1", "edge", parse_payload(event(line)), NOW))
        head = head_of(events[-1])
    assert find_break(events, LogHead()) is None
