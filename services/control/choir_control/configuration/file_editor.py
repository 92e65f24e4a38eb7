"""Reading and replacing config.json as a text, for an editor in the web page.

A text is stored only if it is a usable configuration and the file is still the one that was edited. What
is stored is not active: `config load` and `config apply` activate it.
"""

import asyncio
import contextlib
import hashlib
import json

import structlog

from choir_common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.config_api import ConfigText
from choir_control.configuration.current import ConfigService
from choir_control.configuration.file_replacement import replacing_file
from choir_control.configuration.secrets.store import MIN_SECRET_LENGTH, SecretStore

log = structlog.get_logger("choir.configuration")

MAX_BYTES = 4_000_000


class ConfigFileEditor:
    """Reader and writer of the text of config.json."""

    def __init__(self, configuration: ConfigService, secrets: SecretStore) -> None:
        self._configuration = configuration
        self._path = configuration.path
        self._secrets = secrets

    async def read(self) -> ConfigText:
        """Return the text and its digest; raises InvalidRequest if it holds the value of a secret."""
        content = await asyncio.to_thread(self._read)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                _("{path} is not UTF-8 text (byte {start}); correct it on its machine.").format(
                    path=self._path, start=error.start
                )
            ) from None
        self._refuse_secrets(text)
        self._refuse_secrets(_unescape(text))
        return ConfigText(path=str(self._path), text=text, digest=_digest(content))

    async def save(self, text: str, expected: str) -> ConfigText:
        """Replace the file if its digest is `expected`; return what is stored now.

        Raises InvalidRequest for a text that is no usable configuration or holds the value of a secret,
        and Conflict if the file was changed; the file stays as it was.
        """
        content = text.encode()
        # what is not valid never reaches the disk: the next start of Choir would fail
        candidate = await asyncio.to_thread(self._configuration.check_text, content)
        self._refuse_secrets(text)
        self._refuse_secrets(candidate.body)
        self._refuse_secrets(_unescape(text))
        # a cancelled request waits for the write: one that ended unattended would look like another edit
        writing = asyncio.ensure_future(asyncio.to_thread(self._replace, content, expected))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.gather(writing, return_exceptions=True)
            raise
        log.info("config.json saved", digest=_digest(content))
        return ConfigText(path=str(self._path), text=text, digest=_digest(content))

    def _replace(self, content: bytes, expected: str) -> None:
        with replacing_file(self._path, content):
            if _digest(self._read()) != expected:
                raise Conflict(
                    _(
                        "{path} was changed in the meantime; nothing was saved. Read it again, and "
                        "repeat your changes."
                    ).format(path=self._path)
                )

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise NotFound(
                _("There is no {path}. `choirctl init` makes a first one.").format(path=self._path)
            ) from None
        except OSError as error:
            raise Unavailable(
                _("Cannot read {path}: {error}.").format(path=self._path, error=error.strerror)
            ) from error
        if len(content) > MAX_BYTES:
            raise InvalidRequest(
                _("{path} is larger than {max_bytes} bytes.").format(
                    path=self._path, max_bytes=MAX_BYTES
                )
            )
        return content

    def _refuse_secrets(self, text: str) -> None:
        name = self._secrets.find_in_text(text, MIN_SECRET_LENGTH)
        if name is not None:
            raise InvalidRequest(
                _(
                    "{path} would hold the value of the secret {name!r}, or holds it. Only names of secrets "
                    "belong there: write the name into a `secret` field."
                ).format(path=self._path, name=name)
            )


def _unescape(text: str) -> str:
    """Return the strings of a JSON text as they are: a secret may contain line ends or quotes."""
    strings: list[str] = []
    with contextlib.suppress(ValueError, RecursionError):
        _collect(json.loads(text), strings)
    return "\0".join(strings)


def _collect(value: object, strings: list[str]) -> None:
    if isinstance(value, str):
        strings.append(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            strings.append(name)
            _collect(item, strings)
    elif isinstance(value, list):
        for item in value:
            _collect(item, strings)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
