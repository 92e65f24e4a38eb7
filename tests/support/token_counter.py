"""A token counter that is never available, so that tests use the provider's counts or estimates."""


async def no_token_count(*_: str) -> tuple[int, ...] | None:
    """Return None: no count is available."""
    return None
