"""Record of the real model of the last start: `data/model.json`.

Written at each start with a real model: by `Stack`, and in containers by
`deploy/docker/prepare.py`. Without it, a key that was once set in the environment could be missing
unnoticed, and the scripted rehearsal model would answer in place of the real one.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.config import Config, ModelConfig
from choir_local.home import write_private
from choir_local.model_choice import ModelChoice, environment_keys
from choir_local.settings import LocalSettings

DEFAULT_MODEL = "default"


class ModelRecord(BaseModel):
    """The real model of the last start, and whether its user declined to store its key."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    description: str = Field(alias="words")
    """Description of the model for users."""
    config: ModelConfig
    keep_declined: bool = False
    """Whether the user declined to store its key."""


def read_record(path: Path) -> ModelRecord | None:
    """Return the record, or None if there is none or it cannot be read."""
    try:
        return ModelRecord.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write_record(path: Path, record: ModelRecord) -> None:
    """Replace the record. Raises OSError."""
    write_private(path, record.model_dump_json(indent=1, by_alias=True))


def record_choice(path: Path, choice: ModelChoice) -> None:
    """Record the model of this start, unless it is the rehearsal model. Raises OSError."""
    if choice.config.provider_properties.is_rehearsal:
        return
    before = read_record(path)
    declined = before is not None and before.keep_declined and before.config == choice.config
    write_record(
        path,
        ModelRecord(description=choice.description, config=choice.config, keep_declined=declined),
    )


def find_missing_model(
    path: Path, choice: ModelChoice, settings: LocalSettings
) -> ModelRecord | None:
    """Return the real model of the last start if only the rehearsal model is available now.

    Return None if the rehearsal model was requested, with a score or CHOIR_MODEL_SOURCE.
    """
    is_requested = settings.score is not None or settings.model_source == "rehearsal"
    return None if is_requested or not choice.rehearsal else read_record(path)


def rehearsal_replaces_model_error(record: ModelRecord) -> StartupError:
    """Return the error for a start in which the rehearsal model would replace the real one."""
    name = record.config.secret
    remedy = (
        _(
            "Set its key again, in the environment or permanently with `choirctl secret set {name}`"
        ).format(name=name)
        if name
        else _("Make it reachable again")
    )
    return StartupError(
        _(
            "The previous start used {description}, which is not available now. {remedy}, or "
            "add `models.default` to config.json. The scripted rehearsal model does not "
            "replace it automatically; set CHOIR_MODEL_SOURCE=rehearsal to use it."
        ).format(description=record.description, remedy=remedy)
    )


def configured_model(config: Config | None, settings: LocalSettings) -> ModelChoice | None:
    """Return the model that config.json defines for `default`, or None if the deployment provides it.

    If neither an agent nor memory uses `default`, return the first agent's model.
    """
    if config is None:
        return None
    own = config.models.get(DEFAULT_MODEL)
    if own is None and not uses_default(config):
        first = next(iter(config.agents.values()), None)
        own = config.models.get(first.defaults.llm) if first else None
    if own is None:
        return None
    description = _("{model} at {endpoint} (config.json)").format(
        model=own.model, endpoint=own.endpoint
    )
    return ModelChoice(own, description, secrets=environment_keys(settings))


def uses_default(config: Config) -> bool:
    """Return whether an agent or memory uses the model `default`."""
    model_names = [
        name for it in config.agents.values() for name in (it.defaults.llm, it.defaults.core_llm)
    ]
    return DEFAULT_MODEL in (*model_names, config.memory.model)
