"""Settings of a service from the environment, and its secrets from one JSON object.

Each service subclasses `ServiceSettings` in its own `settings.py`, the only module that reads the
environment. Secrets never come from the environment: `CHOIR_SECRETS_FILE` names a file or a pipe
(`/dev/stdin` under the embedded supervisor) that is read once, at startup.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from choir_common.addresses import ADDRESS_RULES
from choir_common.errors import StartupError
from choir_common.i18n import _

S = TypeVar("S", bound=BaseModel)


class ServiceSecrets(BaseModel, ABC):
    """Secrets common to all services: none; each service has its own in a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @abstractmethod
    def values(self) -> Iterable[str]:
        """Return every secret value, for the redactor."""


class ServiceSettings(BaseSettings):
    """Settings common to all services; each service adds its own in a subclass."""

    model_config = SettingsConfigDict(env_prefix="CHOIR_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".choir.d")
    """State directory."""
    secrets_file: Path | None = None
    """File with one JSON object of this service's secrets; None if it has no secrets."""
    otlp_endpoint: str | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """OTLP/HTTP collector for spans; None disables tracing and the SDK is not loaded."""
    log_level: str = "info"
    """debug, info, warning or error. At info there is one line per turn, not per event."""

    @classmethod
    def load(cls) -> Self:
        """Read the settings from the environment.

        Raises StartupError that names each invalid variable and the reason.
        """
        try:
            return cls()
        except ValidationError as error:
            raise StartupError(_format_errors(_("Invalid environment variables"), error)) from error

    def read_secrets(self, model: type[S]) -> S:
        """Read this service's secrets into `model`.

        Raises StartupError that names the file and the field, never a value.
        """
        try:
            text = self.secrets_file.read_text() if self.secrets_file else "{}"
            return model.model_validate_json(text or "{}")
        except OSError as error:
            raise StartupError(
                _(
                    "Cannot read the secrets of this service from {secrets_file}: {error}. Set "
                    "CHOIR_SECRETS_FILE to a readable JSON file."
                ).format(secrets_file=self.secrets_file, error=error.strerror)
            ) from error
        except ValidationError as error:
            where = f"Invalid secrets in {self.secrets_file}"
            # `from None`: pydantic's own message quotes the value.
            raise StartupError(_format_errors(where, error)) from None


class BusServiceSettings(ServiceSettings):
    """Settings common to the services on the message bus."""

    nats_url: str = "nats://127.0.0.1:4222"
    """Address of the NATS server; the embedded stack picks a free port and sets this."""


def _format_errors(where: str, error: ValidationError) -> str:
    faults = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'value'}: {_error_message(fault)}"
        for fault in error.errors(include_input=False, include_url=False)
    )
    return f"{where}: {faults}."


def _error_message(fault: ErrorDetails) -> str:
    """Return the message for an invalid setting, without quoting the regular expression."""
    if fault["type"] != "string_pattern_mismatch":
        return fault["msg"]
    pattern = str(fault.get("ctx", {}).get("pattern"))
    return ADDRESS_RULES.get(pattern, "invalid format")
