"""The Postgres address from config.json, if it has one. Used by control and by programs that start services.

It is read before the rest of the file, because the remaining configuration is validated against the
database's content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.config import PostgresConfig
from choir_common.wire.validation_messages import error_messages


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database's address and password."""

    dsn: str
    """Connection URL without the password."""
    password: str = field(repr=False)


def read_postgres_address(
    config_file: Path, secret_values: Mapping[str, str]
) -> PostgresAddress | None:
    """Return the address in the section `postgres`, or None if there is none. `named`: secrets by
    name.

    Raises StartupError for an invalid section, or if its secret is not set.
    """
    section = _section(config_file)
    if section is None:
        return None
    password = secret_values.get(section.secret)
    if password is None:
        raise StartupError(
            _(
                "{config_file} names the Postgres at {host}, and its secret {secret!r} is not set. Set "
                "it with `choirctl secret set {secret}`, or remove the section."
            ).format(config_file=config_file, host=section.host, secret=section.secret)
        )
    return PostgresAddress(section.dsn, password)


def _section(config_file: Path) -> PostgresConfig | None:
    try:
        document: object = orjson.loads(config_file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    section = document.get("postgres") if isinstance(document, dict) else None
    if section is None:
        return None
    try:
        return PostgresConfig.model_validate_json(orjson.dumps(section))
    except ValidationError as error:
        reasons = "; ".join(error_messages(error, "postgres"))
        raise StartupError(
            _("{config_file}, section postgres: {reasons}. Correct it.").format(
                config_file=config_file, reasons=reasons
            )
        ) from None
