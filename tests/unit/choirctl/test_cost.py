"""What `choirctl cost` prints: known costs, and unknown ones beside them."""

import csv
import io
from decimal import Decimal

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.money import CostLine, CostReport
from choir_common.wire.money_text import format_calls
from choirctl.commands.cost import _day, _print_csv, _print_table, _print_unpriced

LINES = (
    CostLine(group="gpt-4o", calls=2, cost_usd=Decimal("1.234500000000"), prompt_tokens=1_000),
    CostLine(
        group="own",
        calls=3,
        cost_usd=Decimal(0),
        unknown_calls=3,
        unknown_tokens=70,
        prompt_tokens=60,
    ),
)
REPORT = CostReport(
    by="model",
    since="2026-11-01",
    until="2026-11-23",
    total=CostLine(
        group="", calls=5, cost_usd=Decimal("1.2345"), unknown_calls=3, unknown_tokens=70
    ),
    lines=LINES,
    prices_date="2026-08-21",
)


def test_the_table_names_unknown_prices_beside_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    _print_table(REPORT)
    gpt, own, total = capsys.readouterr().out.splitlines()[-3:]
    assert gpt.split()[0] == "gpt-4o" and gpt.rstrip().endswith("$1.23")
    assert "3 calls of unknown price (70 tokens)" in own and "$" not in own
    assert total.startswith("total") and "$1.23 and 3 calls of unknown price" in total


def test_entries_without_a_price_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _print_unpriced(REPORT)
    assert capsys.readouterr().err == ""
    _print_unpriced(REPORT.model_copy(update={"unpriced": ("models.own", "transcription.ears")}))
    assert "models.own, transcription.ears" in " ".join(capsys.readouterr().err.split())


def test_csv_has_exact_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    _print_csv(REPORT)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["model"], Decimal(row["cost_usd"]), row["unknown_calls"]) for row in rows] == [
        ("gpt-4o", Decimal("1.2345"), "0"),
        ("own", 0, "3"),
    ]


def test_a_day_that_is_none_is_refused() -> None:
    assert _day("2026-11-01") == "2026-11-01" and _day(None) is None
    with pytest.raises(InvalidRequest, match="is no day"):
        _day("yesterday")


def test_one_call_is_not_several() -> None:
    assert [format_calls(count) for count in (1, 2, 1_200)] == ["1 call", "2 calls", "1,200 calls"]
