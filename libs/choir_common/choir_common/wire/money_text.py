"""Amounts of money as text for people. Pure."""

from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal

from choir_common.wire.money import CostLine

CENT = Decimal("0.01")


def format_usd(amount: Decimal) -> str:
    """Return an amount in dollars: to the cent, or with two significant digits below a cent."""
    if not amount or abs(amount) >= CENT:
        return f"${amount.quantize(CENT, ROUND_HALF_EVEN):,}"
    digits = amount.adjusted() - 1
    return f"${amount.quantize(Decimal(1).scaleb(digits), ROUND_UP).normalize():f}"


def format_cost(line: CostLine) -> str:
    """Return a sum of costs, with the calls that it does not contain."""
    amount = format_usd(line.cost_usd)
    if not line.unknown_calls:
        return amount
    rest = f"{format_calls(line.unknown_calls)} of unknown price ({line.unknown_tokens:,} tokens)"
    # A sum of nothing is not zero dollars.
    return rest if line.unknown_calls == line.calls else f"{amount} and {rest}"


def format_calls(count: int) -> str:
    """Return a number of calls as text."""
    return "1 call" if count == 1 else f"{count:,} calls"
