"""Answer GET_SECRETS from memory (spec 14.2, 14.3). Called by the rpc door; `apply` swaps the values."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import structlog

from choir_common.errors import Forbidden

log = structlog.get_logger("choir.secrets")


@dataclass(frozen=True, slots=True)
class Swap:
    """What replacing the values did, by name."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def _nobody(_: Iterable[str]) -> None:
    """Tell nobody of values."""


class Vault:
    """Named secret values, swapped whole."""

    def __init__(
        self, values: Mapping[str, str], learn: Callable[[Iterable[str]], None] = _nobody
    ) -> None:
        """Start from `values`; `learn` hears of every value before anybody can get it (the redactor)."""
        self._learn = learn
        learn(values.values())
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Vault({len(self._values)} secrets)"

    def names(self) -> frozenset[str]:
        """Return the names that have a value."""
        return frozenset(self._values)

    def replace(self, values: Mapping[str, str]) -> Swap:
        """Swap all values at once. What was a secret stays one for the redactor."""
        before, after = self._values, dict(values)
        self._learn(after.values())
        self._values = after
        return Swap(
            added=tuple(sorted(after.keys() - before.keys())),
            changed=tuple(sorted(n for n in after.keys() & before.keys() if after[n] != before[n])),
            removed=tuple(sorted(before.keys() - after.keys())),
        )

    def pick(self, names: Collection[str]) -> dict[str, str]:
        """Return those of `names` that have a value, for a service of ours."""
        return {name: self._values[name] for name in sorted(names) if name in self._values}

    def found_in(self, text: str, shortest: int) -> str | None:
        """Return the name of a secret whose value stands in `text`; shorter ones are not looked for."""
        for name, value in self._values.items():
            if len(value) >= shortest and value in text:
                return name
        return None

    def hand_out(self, wanted: Collection[str], allowed: Collection[str]) -> dict[str, str]:
        """Return the values of `wanted`; a secret that is allowed but not set is left out.

        Raises Forbidden when a name is not among `allowed`; then nothing is handed out.
        """
        refused = sorted(set(wanted) - set(allowed))
        if refused:
            names = ", ".join(repr(name)[:80] for name in refused[:5])
            raise Forbidden(f"This session's resources do not need the secret {names}.")
        missing = sorted(set(wanted) - self._values.keys())
        if missing:
            log.warning("secret is not set", names=missing)
        return {name: self._values[name] for name in wanted if name in self._values}
