"""Forms with which MCP servers ask a person (elicitation): what they may ask, and the values of an answer.

Pure. The protocol allows flat objects of texts, numbers, booleans and choices. Everything in a form is text
of the server's author. A regular expression of a form is shown, but never evaluated: it could run endlessly.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import orjson
from pydantic import JsonValue

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.model import JsonObject

MAX_FIELDS = 30
MAX_FORM_BYTES = 20_000
MAX_TEXT = 4_000
"""Characters of a message, an address and a value."""
MAX_OPTIONS = 200
FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
"""Names that can be typed in an answer, and that hide nothing."""

FieldKind = Literal["string", "number", "integer", "boolean", "choices"]
_TRUTHS = {"yes": True, "true": True, "y": True, "no": False, "false": False, "n": False}
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_CONFIDENTIAL = (
    r"pass ?words?|pass ?phrases?|pass ?codes?|passwd|pwd|pin code|cvv|cvc|otp|one time codes?|2fa codes?|"
    r"(?:api|access|private|secret|auth|signing|encryption|ssh) ?keys?|credentials?|client secrets?|"
    r"(?:access|auth|api|bearer|refresh|session|personal|security) tokens?|(?:seed|recovery) phrases?|"
    r"recovery codes?|(?:credit )?card numbers?|passwort|kennwort|mot de passe|contraseña|пароль|密码"
)
_CONFIDENTIAL_TEXT = re.compile(rf"(?<!\w)(?:{_CONFIDENTIAL})(?!\w)")
_CONFIDENTIAL_FIELD = re.compile(rf"(?<!\w)(?:{_CONFIDENTIAL}|pin|secrets?|token)(?!\w)")
# Letters with which a word passes for another one.
_PLAIN_LETTERS = str.maketrans("аеорсухіѕԁ", "aeopcyxisd")


@dataclass(frozen=True, slots=True)
class FormField:
    """A value that a form asks for."""

    name: str
    kind: FieldKind
    is_required: bool
    options: tuple[str, ...] = ()
    """The only values of a text, or of each of the choices; empty: any."""
    default: JsonValue = None
    least: float | None = None
    """The smallest number, or the smallest number of characters or choices."""
    most: float | None = None


def read_form(schema: JsonObject) -> tuple[FormField, ...]:
    """Return the fields of a form; raises InvalidRequest if the protocol has no such form."""
    if len(orjson.dumps(schema)) > MAX_FORM_BYTES:
        raise InvalidRequest(
            _("The form takes more than {max_form_bytes} bytes.").format(
                max_form_bytes=MAX_FORM_BYTES
            )
        )
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise InvalidRequest(_("The form is no object with properties."))
    if len(properties) > MAX_FIELDS:
        raise InvalidRequest(
            _("The form has more than {max_fields} fields.").format(max_fields=MAX_FIELDS)
        )
    names = {*required} if isinstance(required, list) else set()
    return tuple(_read_field(name, value, name in names) for name, value in properties.items())


def find_secret(message: str, schema: JsonObject | None) -> str | None:
    """Return what of a question asks for a secret, or None."""
    if _CONFIDENTIAL_TEXT.search(_words(message)):
        return "its message"
    properties = schema.get("properties") if schema else None
    for name, field in properties.items() if isinstance(properties, dict) else ():
        texts = [name]
        if isinstance(field, dict):
            texts += [str(field.get(key, "")) for key in ("title", "description")]
            if field.get("format") == "password" or field.get("writeOnly") is True:
                return f"the field {name}"
        if any(_CONFIDENTIAL_FIELD.search(_words(text)) for text in texts):
            return f"the field {name}"
    return None


def check_address(address: str) -> None:
    """Raise InvalidRequest for an address that a person should not be asked to open."""
    try:
        parts = urlsplit(address)
        is_plain = parts.username is None and parts.hostname is not None and address.isprintable()
    except ValueError:
        is_plain = False
    if not is_plain or parts.scheme != "https" or len(address) > MAX_TEXT or " " in address:
        raise InvalidRequest(_("An address must be https, with a host and without a user name."))


def needs_values(schema: JsonObject) -> bool:
    """Return whether a yes alone is no answer to a form."""
    return any(field.is_required and field.default is None for field in read_form(schema))


def read_typed(schema: JsonObject, text: str) -> dict[str, JsonValue]:
    """Return the values of `name=value name=value`, in which values may have spaces, or of a JSON object.

    Raises InvalidRequest with the names of the fields.
    """
    if text.startswith("{"):
        try:
            values = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise InvalidRequest(_("The values are no valid JSON.")) from None
        return dict(values)
    names = [field.name for field in read_form(schema)]
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    start, *parts = re.split(rf"(?:^|\s)({pattern})=", text) if names else [text]
    if start.strip():
        raise InvalidRequest(
            _("{text!r} is not NAME=VALUE of a field: {names}.").format(
                text=start.split()[0][:60], names=", ".join(names) or _("none")
            )
        )
    return {name: value.strip() for name, value in zip(parts[::2], parts[1::2], strict=True)}


def check_values(schema: JsonObject, values: Mapping[str, JsonValue]) -> JsonObject:
    """Return the values of an answer in their types, with the form's defaults.

    Texts are read as the type of their field. Raises InvalidRequest that names what is missing or wrong.
    """
    fields = {field.name: field for field in read_form(schema)}
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise InvalidRequest(
            _("The form has no field {unknown!r}; it has {fields}.").format(
                unknown=unknown[0][:60], fields=", ".join(fields) or _("none")
            )
        )
    content: JsonObject = {}
    for field in fields.values():
        if field.name in values:
            content[field.name] = _read_value(field, values[field.name])
        elif field.default is not None:
            content[field.name] = field.default
    missing = [f.name for f in fields.values() if f.is_required and f.name not in content]
    if missing:
        raise InvalidRequest(
            _("The form needs {missing}: answer with NAME=VALUE for each.").format(
                missing=", ".join(missing)
            )
        )
    return content


def _read_field(name: str, field: JsonValue, is_required: bool) -> FormField:
    if not FIELD_NAME.fullmatch(name) or not isinstance(field, dict):
        raise InvalidRequest(
            _("A field of the form has a name with other characters than letters.")
        )
    kind = str(field.get("type"))
    items = field.get("items")
    source = items if kind == "array" and isinstance(items, dict) else field
    options = tuple(_options(source))
    if kind == "array" and options:
        limits = ("minItems", "maxItems")
        return _field(name, "choices", is_required, field, options, limits)
    match kind:
        case "string":
            return _field(name, kind, is_required, field, options, ("minLength", "maxLength"))
        case "number" | "integer" | "boolean":
            return _field(name, kind, is_required, field, (), ("minimum", "maximum"))
    raise InvalidRequest(
        _(
            "The field {name} is no text, number, boolean or choice, as forms of the protocol have."
        ).format(name=name)
    )


def _field(
    name: str,
    kind: FieldKind,
    is_required: bool,
    schema: JsonObject,
    options: tuple[str, ...],
    limits: tuple[str, str],
) -> FormField:
    least, most = (_number(schema.get(limit)) for limit in limits)
    field = FormField(name, kind, is_required, options, None, least, most)
    default = schema.get("default")
    if default is None:
        return field
    default = _read_value(field, default)
    return FormField(name, kind, is_required, options, default, least, most)


def _options(schema: JsonObject) -> Iterator[str]:
    """Yield the values of `enum`, or of `const` inside of `oneOf` or `anyOf`."""
    listed = schema.get("enum") or schema.get("oneOf") or schema.get("anyOf") or []
    for number, option in enumerate(listed if isinstance(listed, list) else []):
        value = option.get("const") if isinstance(option, dict) else option
        if not isinstance(value, str) or number == MAX_OPTIONS:
            raise InvalidRequest(
                _("A choice of the form is no text, or there are over {number}.").format(
                    number=number
                )
            )
        yield value


def _read_value(field: FormField, value: JsonValue) -> JsonValue:
    """Return a value in the type of its field; raises InvalidRequest."""
    match field.kind, value:
        case "boolean", bool():
            return value
        case "boolean", str() if value.strip().lower() in _TRUTHS:
            return _TRUTHS[value.strip().lower()]
        case (("number" | "integer"), str() | int() | float()) if not isinstance(value, bool):
            number = _parse_number(field, value)
            _check_size(field, number)
            return number
        case "string", str() if len(value) <= MAX_TEXT:
            _check_option(field, value)
            _check_size(field, len(value))
            return value
        case "choices", str() | list():
            texts = value.split(",") if isinstance(value, str) else [str(item) for item in value]
            choices = [text.strip() for text in texts if text.strip()]
            for choice in choices:
                _check_option(field, choice)
            _check_size(field, len(choices))
            return [*choices]
    raise InvalidRequest(
        _("The value of {field} is no {kind}.").format(field=field.name, kind=field.kind)
    )


def _parse_number(field: FormField, value: str | float) -> int | float:
    try:
        number = float(value)
        if field.kind == "integer":
            return int(value) if number.is_integer() else int("")
    except (ValueError, OverflowError):
        number = float("nan")
    if not abs(number) < float("inf"):
        raise InvalidRequest(
            _("The value of {field} is no {kind}.").format(field=field.name, kind=field.kind)
        )
    return number


def _check_option(field: FormField, value: str) -> None:
    if field.options and value not in field.options:
        listed = ", ".join(ascii(option[:60]).strip("'") for option in field.options[:20])
        raise InvalidRequest(
            _("The value of {field} is one of {listed}.").format(field=field.name, listed=listed)
        )


def _check_size(field: FormField, size: float) -> None:
    what = _("value") if field.kind in ("number", "integer") else _("length of the value")
    if field.least is not None and size < field.least:
        raise InvalidRequest(
            _("The {what} of {field} is below {least:g}.").format(
                what=what, field=field.name, least=field.least
            )
        )
    if field.most is not None and size > field.most:
        raise InvalidRequest(
            _("The {what} of {field} is above {most:g}.").format(
                what=what, field=field.name, most=field.most
            )
        )


def _number(value: JsonValue) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _words(text: str) -> str:
    """Return a text in lower case, its words apart, as it is and as it looks; without hidden letters."""
    plain = unicodedata.normalize("NFKC", text)
    plain = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    both = f"{plain} {plain.translate(_PLAIN_LETTERS)}"
    return " ".join(_WORD_BREAK.split(both)).casefold()
