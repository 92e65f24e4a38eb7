"""Read from config.json which secrets its gateways name. Called by `services`.

Control checks the file and says what is wrong with it; an unreadable one names nothing here.
"""

from pathlib import Path

from pydantic import ValidationError

from choir_common.wire.config import Config


def gateway_secrets(config_file: Path) -> frozenset[str]:
    """Return the names of the secrets that configured gateways use."""
    try:
        config = Config.model_validate_json(config_file.read_bytes())
    except (OSError, ValidationError):
        return frozenset()
    return frozenset(gateway.secret for gateway in config.gateways.values() if gateway.secret)
