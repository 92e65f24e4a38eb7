"""Scopes of a person's yes to a tool call. See docs/design/policy.md."""

from typing import Literal

GrantScope = Literal["once", "job", "session", "always"]
"""How long a yes holds: for one call, until the core job or session ends, or until its expiry."""
GrantUse = Literal["any", "named"]
"""Which earlier yes may answer a question; `named`: only one that is bound to named destinations."""
EVERY_SCOPE: tuple[GrantScope, ...] = ("once", "job", "session", "always")
