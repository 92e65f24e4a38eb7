"""Each provider passes each scenario, with the outcome that docs/providers.md states."""

from pathlib import Path

import pytest

from tests.service.models.provider_matrix import SCENARIOS, every_provider, run_scenarios

PAGE = Path(__file__).parents[3] / "docs/providers.md"


def documented() -> dict[str, dict[str, str]]:
    """Return the matrix of docs/providers.md: the outcome by provider, by scenario."""
    lines = PAGE.read_text().partition("## Matrix")[2].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    head, _, *body = rows
    return {
        name.strip("`"): {cells[0]: cells[column] for cells in body}
        for column, name in enumerate(head)
        if column
    }


def test_the_page_has_each_provider_and_each_scenario() -> None:
    matrix = documented()
    assert list(matrix) == list(every_provider())
    assert {tuple(cells) for cells in matrix.values()} == {tuple(SCENARIOS)}


@pytest.mark.parametrize("name", every_provider())
async def test_a_provider_passes_each_scenario_as_documented(name: str) -> None:
    assert await run_scenarios(name) == documented()[name]
