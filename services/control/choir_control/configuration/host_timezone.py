"""The time zone of this machine."""

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from choir_common.wire.config_parts import TimeZone

LOCALTIME = Path("/etc/localtime")
ZONES = "zoneinfo/"
_UTC = frozenset({"Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"})

_ZONE: TypeAdapter[str] = TypeAdapter(TimeZone)


def read_host_timezone(localtime: Path = LOCALTIME) -> str:
    """Return the IANA name from the target of the link /etc/localtime, or UTC if there is none."""
    try:
        _, separator, name = str(localtime.readlink()).rpartition(ZONES)
    except OSError:  # not a link: a copy, or missing, as in containers
        return "UTC"
    try:
        zone = _ZONE.validate_python(name)
    except ValidationError:
        return "UTC"
    return zone if separator and zone not in _UTC else "UTC"
