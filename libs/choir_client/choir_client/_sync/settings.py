"""The configuration and the secrets of a Choir."""

from choir_client import operations
from choir_client._sync.connection import Connection
from choir_common.wire.config_api import (
    ApplyConfig,
    ConfigApplied,
    ConfigDiff,
    ConfigProgress,
    ConfigText,
    ConfigView,
    SecretName,
    SecretsApplied,
    SecretStored,
    SetSecret,
    WriteConfigText,
)

SecretNames = list[SecretName]


class Config:
    """config.json, what of it is staged, and the active configuration."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> ConfigView:
        """Return the active configuration; secrets by name only."""
        return self._connection.call(operations.SHOW_CONFIG)

    def read_file(self) -> ConfigText:
        """Return the text of config.json, with the digest that `write_file` takes."""
        return self._connection.call(operations.READ_CONFIG_FILE)

    def write_file(self, text: str, digest: str) -> ConfigText:
        """Replace the text of config.json. Raises Conflict if it is not the one with this digest."""
        body = WriteConfigText(text=text, digest=digest)
        return self._connection.call(operations.WRITE_CONFIG_FILE, body=body)

    def load(self) -> ConfigDiff:
        """Stage config.json, and return what differs. Raises InvalidRequest that names what is wrong."""
        return self._connection.call(operations.LOAD_CONFIG)

    def diff(self) -> ConfigDiff:
        """Return how the staged configuration differs from the active one."""
        return self._connection.call(operations.DIFF_CONFIG)

    def apply(self, digest: str | None = None) -> ConfigApplied:
        """Make the staged configuration the active one.

        Raises Conflict if `digest` is that of another diff than the present one.
        """
        body = ApplyConfig(digest=digest)
        return self._connection.call(operations.APPLY_CONFIG, body=body)

    def report(self) -> ConfigProgress:
        """Return which agents have the active configuration."""
        return self._connection.call(operations.REPORT_CONFIG)


class Secrets:
    """Secrets: names and changes. No method returns a value."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> SecretNames:
        """Return the names that are set or that the configuration refers to."""
        return (self._connection.call(operations.LIST_SECRETS)).items

    def set(self, name: str, value: str) -> SecretStored:
        """Store a value; `apply` gives it to what uses it."""
        body = SetSecret(value=value)
        return self._connection.call(operations.STORE_SECRET, {"name": name}, body=body)

    def apply(self) -> SecretsApplied:
        """Give the stored secrets to what uses them."""
        return self._connection.call(operations.APPLY_SECRETS)
