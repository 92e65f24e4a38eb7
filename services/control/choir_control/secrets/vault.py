"""Answer GET_SECRETS from memory (spec 14.2, 14.3). Called by the rpc door."""

from collections.abc import Collection, Mapping

import structlog

from choir_common.errors import Forbidden

log = structlog.get_logger("choir.secrets")


class Vault:
    """Named secret values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Vault({len(self._values)} secrets)"

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
