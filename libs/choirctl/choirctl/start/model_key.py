"""Check of the model's API key at a start: ask for a key that is missing, offer to store one that is new.

A key in the environment is lost when its shell ends; storing it keeps the real model for the next start.
Called by `up` before anything is started. Asks only on a terminal.
"""

import asyncio
from dataclasses import dataclass

import typer
from rich.console import Console

from choir_common.i18n import _
from choir_common.secret_file import edit_secret_file
from choir_common.secret_reader import read_secrets
from choir_common.wire.config import Config
from choir_local.home import Home
from choir_local.model_choice import ModelChoice, choose_model, environment_keys
from choir_local.model_record import (
    DEFAULT_MODEL,
    ModelRecord,
    configured_model,
    find_missing_model,
    read_record,
    rehearsal_replaces_model_error,
    write_record,
)
from choir_local.settings import LocalSettings
from choirctl.output.language import tr
from choirctl.output.printing import confirm
from choirctl.start.config_insert import insert_entry

UNUSED_URL = "http://127.0.0.1/v1"


@dataclass(frozen=True, slots=True)
class ModelKeySetup:
    """The key of the model `default` at one start of a state directory."""

    home: Home
    settings: LocalSettings
    config: Config
    console: Console

    def ensure_stored(self, *, ask: bool) -> None:
        """Make sure that the real model of the previous start is used again; with `ask`, ask
        the user.

        Raises StartupError if only the rehearsal model would replace it.
        """
        own = configured_model(self.config, self.settings)
        if own is not None:
            self._offer_to_store(own, ask)
            return
        secrets = read_secrets(self.home.secrets_file)
        choice = asyncio.run(choose_model(self.settings, secrets, UNUSED_URL))
        missing = find_missing_model(self.home.model_file, choice, self.settings)
        if missing is None:
            self._report_change(choice)
            self._offer_to_store(choice, ask)
        elif not ask or missing.config.secret is None or not self._ask_again(missing):
            raise rehearsal_replaces_model_error(missing)

    def _report_change(self, choice: ModelChoice) -> None:
        """Print a note if the model differs from the previous start: a variable may be missing."""
        record = read_record(self.home.model_file)
        if record is not None and record.config != choice.config:
            self.console.print(
                _("The previous start used {description}; this one uses {description2}.").format(
                    description=record.description, description2=choice.description
                ),
                markup=False,
                highlight=False,
            )

    def _ask_again(self, record: ModelRecord) -> bool:
        """Ask for the key of the previous start's model and store it; return False if none is entered."""
        name = str(record.config.secret)
        self.console.print(
            _("The previous start used {description}, but its key is not set now.").format(
                description=record.description
            ),
            markup=False,
            highlight=False,
        )
        key: str = typer.prompt(
            tr(_("Its key (stored as {name} in secrets.json; Enter to stop)").format(name=name)),
            default="",
            show_default=False,
            hide_input=True,
            err=True,
        )
        if key.strip():
            self._store(record.description, record.config.secret, key.strip())
            self._write_model_entry(ModelChoice(record.config, record.description))
        return bool(key.strip())

    def _offer_to_store(self, choice: ModelChoice, ask: bool) -> None:
        """Offer to store a key that is only in the environment, unless the user declined that before."""
        name = choice.config.secret
        key = environment_keys(self.settings).get(name or "")
        if name is None or key is None or name in read_secrets(self.home.secrets_file):
            return
        record = read_record(self.home.model_file)
        if record is not None and record.keep_declined and record.config == choice.config:
            return
        if not ask:
            self.console.print(
                _(
                    "The key of {description} is only in the environment; `choirctl secret set "
                    "{name}` stores it for the next start."
                ).format(description=choice.description, name=name),
                markup=False,
                highlight=False,
            )
        elif confirm(
            _("Store the key of {description} for the next start ({name} in secrets.json)?").format(
                description=choice.description, name=name
            ),
            default=True,
        ):
            self._store(choice.description, name, key)
            self._write_model_entry(choice)
        else:
            declined = ModelRecord(
                description=choice.description, config=choice.config, keep_declined=True
            )
            write_record(self.home.model_file, declined)

    def _store(self, words: str, name: str | None, key: str) -> None:
        with edit_secret_file(self.home.secrets_file) as values:
            values[str(name)] = key
        self.console.print(
            _("The key of {words} is stored as {name}.").format(words=words, name=name),
            markup=False,
            highlight=False,
        )

    def _write_model_entry(self, choice: ModelChoice) -> None:
        """Write the model to config.json if the stored key alone would select another one next time."""
        if DEFAULT_MODEL in self.config.models:
            return
        # simulate the next start with the stored secrets only, without keys in the environment
        secrets = read_secrets(self.home.secrets_file)
        bare = LocalSettings(home=self.settings.home, model="")
        plain = bare.model_copy(
            update={
                "openai_base_url": LocalSettings.model_fields["openai_base_url"].default,
                "anthropic_base_url": LocalSettings.model_fields["anthropic_base_url"].default,
                "openrouter_api_key": None,
                "anthropic_api_key": None,
                "gemini_api_key": None,
                "openai_api_key": None,
                "model_source": "auto",
                "model": "",
                "score": None,
            }
        )
        next_choice = asyncio.run(choose_model(plain, secrets, UNUSED_URL))
        if next_choice.config != choice.config:
            entry = choice.config.model_dump(mode="json", exclude_defaults=True)
            insert_entry(self.home.config_file, "models", DEFAULT_MODEL, entry)
            self.console.print(
                _("It was added to config.json as models.{default_model}.").format(
                    default_model=DEFAULT_MODEL
                ),
                markup=False,
                highlight=False,
            )
