"""Read a service's settings from the environment and its secrets from one JSON object.

Each service subclasses `ServiceSettings` in its own `settings.py`, which is its only reader of the
environment. Secrets never come from the environment: `CHOIR_SECRETS_FILE` names a file or a pipe
(`/dev/stdin` under the embedded supervisor) that is read once, at start.
"""

from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from choir_common.addresses import ADDRESS_RULES
from choir_common.errors import StartupError

S = TypeVar("S", bound=BaseModel)


class ServiceSettings(BaseSettings):
    """Settings every service has; a service adds its own below them."""

    model_config = SettingsConfigDict(env_prefix="CHOIR_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".choir.d")
    """State directory (spec 6.3); the spec's own default."""
    nats_url: str = "nats://127.0.0.1:4222"
    """Where the bus listens; the embedded stack picks a free port and says it here."""
    secrets_file: Path | None = None
    """One JSON object with this service's secrets; none means it has none."""
    otlp_endpoint: str | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """Where a collector takes spans over HTTP; none, and the SDK is not even loaded."""
    log_level: str = "info"
    """debug, info, warning or error; info shows one line per turn, not per event."""

    @classmethod
    def load(cls) -> Self:
        """Read the environment.

        Raises StartupError naming each variable that does not fit, and why.
        """
        try:
            return cls()
        except ValidationError as error:
            raise StartupError(_paragraph("The environment does not fit", error)) from error

    def read_secrets(self, shape: type[S]) -> S:
        """Read this service's secrets into `shape`.

        Raises StartupError naming the file and the field, never a value.
        """
        try:
            text = self.secrets_file.read_text() if self.secrets_file else "{}"
            return shape.model_validate_json(text or "{}")
        except OSError as error:
            raise StartupError(
                f"Cannot read the secrets of this service from {self.secrets_file}: "
                f"{error.strerror}. Set CHOIR_SECRETS_FILE to a readable JSON file."
            ) from error
        except ValidationError as error:
            where = f"The secrets in {self.secrets_file} do not fit"
            # `from None`: pydantic's own text quotes the value
            raise StartupError(_paragraph(where, error)) from None


def _paragraph(where: str, error: ValidationError) -> str:
    faults = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'value'}: {_words(fault)}"
        for fault in error.errors(include_input=False, include_url=False)
    )
    return f"{where}: {faults}."


def _words(fault: ErrorDetails) -> str:
    """Say what is wrong with a setting, without the regular expression that it does not match."""
    if fault["type"] != "string_pattern_mismatch":
        return fault["msg"]
    pattern = str(fault.get("ctx", {}).get("pattern"))
    return ADDRESS_RULES.get(pattern, "it has a form that cannot be used here")
