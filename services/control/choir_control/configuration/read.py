"""Strict parsing of config.json: all of it or none.

Called by `current`; the result is checked by `check`.
"""

from pathlib import Path

from pydantic import ValidationError

from choir_common.errors import BadInput
from choir_common.wire.config import Config, ModelConfig
from choir_common.wire.config_faults import words_of
from choir_common.wire.faults import as_list, fault_place
from choir_control.configuration.check import faults

DEFAULT_MODEL = "default"
MAX_BYTES = 4_000_000
SHOWN = 10


class Missing(BadInput):
    """There is no config.json: this may be the wrong state directory."""


def read_config(path: Path, default_model: ModelConfig | None) -> Config:
    """Return the valid configuration in `path`.

    Raises BadInput with the file, the path inside it and the remedy.
    """
    return complete(read_written(path), default_model, str(path))


def complete(written: Config, default_model: ModelConfig | None, source: str) -> Config:
    """Add the deployment's default model and check the result; raises BadInput that names `source`."""
    config = _with_default_model(written, default_model)
    found = faults(config)
    if found:
        raise BadInput(as_list(f"{source} is not usable", found, "Nothing was changed.", SHOWN))
    return config


def read_written(path: Path) -> Config:
    """Return the content of the file, validated by the schema alone; raises BadInput."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed shows that the file is too large.
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise Missing(
            f"There is no {path}. Run `choirctl init` to make one, or set CHOIR_HOME."
        ) from None
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}.") from error
    if len(text) > MAX_BYTES:
        raise BadInput(f"{path} is larger than {MAX_BYTES} bytes; that is no configuration.")
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        found = [f"{fault_place(it, 'the file')}: {words_of(it)}" for it in error.errors()]
        head, tail = f"{path} does not fit", "Correct it and try again; nothing was changed."
        raise BadInput(as_list(head, found, tail, SHOWN)) from None


def _with_default_model(config: Config, default_model: ModelConfig | None) -> Config:
    if default_model is None or DEFAULT_MODEL in config.models:
        return config
    return config.model_copy(update={"models": {**config.models, DEFAULT_MODEL: default_model}})
