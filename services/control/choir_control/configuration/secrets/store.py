"""In-memory store of secret values, for GET_SECRETS. `apply` replaces the values."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from choir_common.errors import Forbidden
from choir_common.i18n import _
from choir_common.redactor import Redactor

log = structlog.get_logger("choir.secrets")

# Shorter values would also match ordinary text.
MIN_SECRET_LENGTH = 12


@dataclass(frozen=True, slots=True)
class SecretChanges:
    """The names of secrets that a replacement added, changed and removed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class SecretStore:
    """Secret values by name, replaced all at once."""

    def __init__(self, values: Mapping[str, str], redactor: Redactor | None = None) -> None:
        """Start with `values`; `redactor` receives every value before it can be read."""
        self._redactor = redactor or Redactor()
        self._redactor.add_secrets(values.values())
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Vault({len(self._values)} secrets)"

    def names(self) -> frozenset[str]:
        """Return the names that have a value."""
        return frozenset(self._values)

    def get(self, name: str) -> str | None:
        """Return the value of a secret, or None if it is not set."""
        return self._values.get(name)

    def replace(self, values: Mapping[str, str]) -> SecretChanges:
        """Replace all values at once. The redactor keeps masking the old ones."""
        before, after = self._values, dict(values)
        # The redactor knows a value before anybody can read it.
        self._redactor.add_secrets(after.values())
        self._values = after
        return SecretChanges(
            added=tuple(sorted(after.keys() - before.keys())),
            changed=tuple(sorted(n for n in after.keys() & before.keys() if after[n] != before[n])),
            removed=tuple(sorted(before.keys() - after.keys())),
        )

    def get_known(self, names: Collection[str]) -> dict[str, str]:
        """Return the values of `names` that are set, for another service of Choir."""
        return {name: self._values[name] for name in sorted(names) if name in self._values}

    def find_in_text(self, text: str, shortest: int) -> str | None:
        """Return the name of a secret whose value occurs in `text`; values below `shortest` are skipped."""
        for name, value in self._values.items():
            if len(value) >= shortest and value in text:
                return name
        return None

    def get_allowed(
        self, requested_names: Collection[str], allowed: Collection[str]
    ) -> dict[str, str]:
        """Return the values of `requested_names`; secrets that are allowed but not set are omitted.

        Raises Forbidden if a name is not in `allowed`; then none are returned.
        """
        forbidden = sorted(set(requested_names) - set(allowed))
        if forbidden:
            names = ", ".join(repr(name)[:80] for name in forbidden[:5])
            raise Forbidden(
                _(
                    "This session may not read the secret {names}: none of its resources needs it."
                ).format(names=names)
            )
        missing = sorted(set(requested_names) - self._values.keys())
        if missing:
            log.warning("secret is not set", names=missing)
        return {name: self._values[name] for name in requested_names if name in self._values}
