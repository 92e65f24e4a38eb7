"""Strict parsing of config.json: all of it or none."""

from collections.abc import Sequence
from pathlib import Path

import structlog
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _, join
from choir_common.json_places import line_of
from choir_common.wire.config import Config, ModelConfig
from choir_common.wire.config_messages import setting_error_message
from choir_common.wire.validation_messages import error_path, format_errors
from choir_control.configuration.validation import find_faults

DEFAULT_MODEL = "default"
MAX_BYTES = 4_000_000
JSON_SYNTAX = "json_invalid"
"""pydantic's type of this fault; its message has the line and column."""
MAX_FAULTS_SHOWN = 10
log = structlog.get_logger("choir.configuration")


class ConfigFileMissing(InvalidRequest):
    """There is no config.json: this may be the wrong state directory."""


def read_config(path: Path, default_model: ModelConfig | None) -> Config:
    """Return the valid configuration in `path`.

    Raises InvalidRequest with the file, the path inside it and the remedy.
    """
    return complete_config(parse_config_file(path), default_model, str(path))


def complete_config(file_config: Config, default_model: ModelConfig | None, source: str) -> Config:
    """Add the deployment's default model and check the result; raises InvalidRequest that names `source`."""
    config = _with_default_model(file_config, default_model)
    faults = find_faults(config)
    if faults:
        raise InvalidRequest(
            format_errors(
                _("{source} is not usable").format(source=source),
                faults,
                _("Nothing was changed."),
                MAX_FAULTS_SHOWN,
            )
        )
    return config


def parse_config_file(path: Path) -> Config:
    """Return the content of the file, validated by the schema alone; raises InvalidRequest."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed shows that the file is too large.
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigFileMissing(
            _("There is no {path}. Run `choirctl init` to make one, or set CHOIR_HOME.").format(
                path=path
            )
        ) from None
    except OSError as error:
        raise InvalidRequest(
            _("Cannot read {path}: {error}.").format(path=path, error=error.strerror)
        ) from error
    return parse_config_text(text, str(path))


def parse_config_text(text: bytes, source: str) -> Config:
    """Return the content of a file `source`, validated by the schema alone; raises InvalidRequest."""
    if len(text) > MAX_BYTES:
        raise InvalidRequest(
            _(
                "{source} is larger than {max_bytes} bytes, which is too large for a configuration."
            ).format(source=source, max_bytes=MAX_BYTES)
        )
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        lines = text.decode(errors="replace")
        # only those that are shown are described: each takes a walk through the text
        first = [
            join(
                "",
                (
                    "" if it["type"] == JSON_SYNTAX else _line(lines, it["loc"]),
                    error_path(it, _("the file")),
                    ": ",
                    setting_error_message(it),
                ),
            )
            for it in error.errors(include_url=False)[:MAX_FAULTS_SHOWN]
        ]
        faults = [*first, *[""] * (error.error_count() - len(first))]
        head = _("{path} is not valid").format(path=source)
        tail = _("Correct it and try again; nothing was changed.")
        raise InvalidRequest(format_errors(head, faults, tail, MAX_FAULTS_SHOWN)) from None


def _line(text: str, place: Sequence[str | int]) -> str:
    """Return the line of a place as a prefix; empty if the text has no such place."""
    line = line_of(text, place)
    return "" if line is None else _("line {line}, ").format(line=line)


def _with_default_model(config: Config, default_model: ModelConfig | None) -> Config:
    if default_model is None or DEFAULT_MODEL in config.models:
        return config
    return config.model_copy(update={"models": {**config.models, DEFAULT_MODEL: default_model}})
