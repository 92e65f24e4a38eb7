"""What all tests share: the profile for long random walks, and who runs what when several run at a time."""

import pytest

from tests.support.steps import register_profiles

register_profiles()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests together that share what one of them made; all others go to whoever is free."""
    for item in items:
        if shares_what_it_made(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def shares_what_it_made(item: pytest.Item) -> bool:
    """Tell whether a fixture of this test's module serves other tests, too."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    return any(fixture.scope in ("class", "module") for made in found for fixture in made)
