"""choirctl speaks the language of the terminal; what programs read stays English."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest
from choir_common.i18n import READER_LANGUAGE, _, join, translate
from choir_control.configuration.parsing import parse_config_text
from choirctl.output.language import choose_own_language
from tests.support.preloaded_choirctl import run_choirctl

GERMAN = {"CHOIR_LANGUAGE": "", "LANG": "de_DE.UTF-8", "LC_ALL": "", "LC_MESSAGES": ""}


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A directory whose sockets have short paths."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "de_AT.UTF-8"}, "de"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "de"}, "de"),
        ({"LC_ALL": "de_DE", "CHOIR_LANGUAGE": "en"}, "en"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale_unless_the_setting_names_another(
    environment: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in GERMAN:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    token = READER_LANGUAGE.set("en")
    try:
        choose_own_language()
        assert READER_LANGUAGE.get() == language
    finally:
        READER_LANGUAGE.reset(token)


def test_a_message_in_an_f_string_is_in_the_readers_language_and_its_value_is_english() -> None:
    inner = _("failed")
    message = join(": ", (_("Expired"), _("{done} of {total}").format(done=inner, total=2)))
    token = READER_LANGUAGE.set("de")
    try:
        assert f"{inner}!" == "fehlgeschlagen!"
        again = _("{done} of {total}").format(done=inner, total=2)
        assert str(again) == "failed of 2" and again.in_language("en") == "failed of 2"
        assert f"{message:s}".endswith("fehlgeschlagen von 2")
    finally:
        READER_LANGUAGE.reset(token)
    assert f"{inner}!" == "failed!"


def test_words_help_and_errors_are_german_and_json_and_exit_codes_are_as_in_english(
    short_home: Path,
) -> None:
    help_text = run_choirctl("config", "set", "--help", env=GERMAN).stdout
    assert (
        "Eine Einstellung von config.json ändern" in help_text and "Beispiel: choirctl" in help_text
    )
    assert "Optionen:" in help_text and "Diese Hilfe zeigen." in help_text
    assert "Zustand von Choir, seinen" in run_choirctl("--help", env=GERMAN).stdout
    made = run_choirctl("init", home=short_home, env=GERMAN)
    assert made.returncode == 0 and "Zustandsverzeichnis" in made.stderr
    listed = run_choirctl("secret", "list", home=short_home, env=GERMAN)
    assert "GEHEIMNIS" in listed.stdout and "Choir selbst" in listed.stdout
    away = run_choirctl("status", home=short_home, env=GERMAN)
    assert away.returncode == 6
    assert " ".join(away.stderr.split()).startswith("Fehler: Choir läuft hier nicht: Unter ")
    for words in (("status", "--json"), ("doctor", "--json")):
        german = run_choirctl(*words, home=short_home, env=GERMAN)
        english = run_choirctl(*words, home=short_home)
        assert german.returncode == english.returncode
        if words[0] == "status":
            assert json.loads(german.stderr) == json.loads(english.stderr)
        else:
            assert "kein" not in german.stdout and json.loads(german.stdout)["checks"]


@pytest.mark.parametrize(
    ("words", "german"),
    [
        ("--nope", "Diese Option gibt es nicht: --nope"),
        ("agent start", "Das Argument 'AGENT' fehlt."),
        ("agnt", "Den Befehl 'agnt' gibt es nicht. Meinten Sie 'agent'?"),
        ("chat -m", "Die Option '-m' braucht einen Wert."),
        ("up --no-chat=3", "Die Option '--no-chat' hat keinen Wert."),
        (
            "memory search main x --limit y",
            "Ungültiger Wert für '--limit': das ist keine ganze Zahl",
        ),
        ("db status more", "Unerwartete weitere Argumente (more)"),
    ],
)
def test_a_mistyped_command_is_explained_in_german(words: str, german: str) -> None:
    failed = run_choirctl(*words.split(), env=GERMAN)
    assert failed.returncode == 2
    # typer does not say which command lacks the value of an option
    if "Die Option" not in german:
        assert failed.stderr.startswith("Aufruf: choirctl") and "Hilfe: 'choirctl" in failed.stderr
    assert f"Fehler: {german}" in " ".join(failed.stderr.split())


def test_a_mistyped_command_is_explained_in_english_and_as_json() -> None:
    failed = run_choirctl("agent", "start")
    assert failed.returncode == 2
    usage = "Usage: choirctl agent start [OPTIONS] {AGENT}\nTry 'choirctl agent start -h' for help."
    assert failed.stderr == f"{usage}\n\nError: Missing argument 'AGENT'.\n"
    error = json.loads(run_choirctl("agent", "start", "--json", env=GERMAN).stderr)["error"]
    assert error == {"code": "usage", "message": "Missing argument 'AGENT'.", "exit_code": 2}


@pytest.mark.parametrize(
    ("section", "german"),
    [
        ({"backup": {"every": 3}}, "backup.every: Hier muss ein Text stehen"),
        ({"backup": {"keep": {"last": 0}}}, "backup.keep.last: Der Wert muss mindestens 1 sein"),
        (
            {"backup": {"keep": {"daily": 1.5}}},
            "backup.keep.daily: Hier muss eine ganze Zahl stehen",
        ),
        ({"postgres": {"host": "x"}}, "postgres.secret: Dieses Feld fehlt"),
        ({"bakcup": {}}, "bakcup: unbekannte Einstellung (meinten Sie `backup`?)"),
        ({"timezone": "x/y", "agents": []}, "agents: Hier muss ein Objekt stehen"),
    ],
)
def test_faults_of_settings_are_german_also_those_that_control_finds(
    section: dict[str, object], german: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse_config_text(json.dumps(section).encode(), "config.json")
    message = translate(error.value.message, "de")
    assert german in message and "config.json ist nicht gültig" in message
    assert "Berichtigen Sie das" in message
