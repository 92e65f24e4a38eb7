"""Find the Postgres that config.json names, if it names one. Used by control and by who starts the services.

Read apart from the rest of the file, and before it: what else the configuration says is checked against
what the database holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.wire.config import PostgresConfig
from choir_common.wire.faults import faults_of


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a database is, and what opens it."""

    dsn: str
    """Without the password."""
    password: str = field(repr=False)


def configured_postgres(config_file: Path, named: Mapping[str, str]) -> PostgresAddress | None:
    """Return what the section `postgres` names; None without the section. `named`: secrets by name.

    Raises StartupError for a section that does not fit, or whose secret is not set.
    """
    section = _section(config_file)
    if section is None:
        return None
    password = named.get(section.secret)
    if password is None:
        raise StartupError(
            f"{config_file} names the Postgres at {section.host}, and its secret {section.secret!r} is not "
            f"set. Set it with `choirctl secret set {section.secret}`, or take the section out."
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
        found = "; ".join(faults_of(error, "postgres"))
        raise StartupError(f"{config_file}, section postgres: {found}. Correct it.") from None
