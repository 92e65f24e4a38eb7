"""Validation of config.json before anything is started, with the line and field of each error.

Called by `up`, `doctor`, `agent init` and `agent delete`. Control validates the file again when it starts;
this check fails earlier, before any process runs.
"""

import json
from pathlib import Path

from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.json_places import line_of
from choir_common.wire.config import Config
from choir_common.wire.config_messages import setting_error_message
from choir_common.wire.validation_messages import error_path, format_errors

MAX_FAULTS = 20
REMEDY = _("Correct it and start again.")


def read_config(path: Path) -> Config:
    """Read and check config.json.

    Raises StartupError naming the file, the line and the field.
    """
    text = _read(path)
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        raise StartupError(_faults(path, text, error)) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise StartupError(
            _("There is no {path}. `choirctl init` makes a first one.").format(path=path)
        ) from error
    except UnicodeDecodeError as error:
        raise StartupError(
            _("{path} is not UTF-8 text (byte {start}).").format(path=path, start=error.start)
        ) from error
    except OSError as error:
        raise StartupError(
            _("Cannot read {path}: {strerror}.").format(path=path, strerror=error.strerror)
        ) from error


def _faults(path: Path, text: str, error: ValidationError) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as syntax_error:
        place = _("{path}, line {lineno}, column {colno}").format(
            path=path, lineno=syntax_error.lineno, colno=syntax_error.colno
        )
        return _("{place}: not JSON ({msg}). {remedy}").format(
            place=place, msg=syntax_error.msg, remedy=REMEDY
        )
    faults = []
    for fault in error.errors(include_url=False):
        line, field = line_of(text, fault["loc"]), error_path(fault, _("the file"))
        faults.append(
            _("line {line}, field `{field}`: {setting_error_message}").format(
                line=line, field=field, setting_error_message=setting_error_message(fault)
            )
        )
    return format_errors(_("{path} is not valid").format(path=path), faults, REMEDY, MAX_FAULTS)
