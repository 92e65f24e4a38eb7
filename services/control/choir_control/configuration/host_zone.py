"""Find the time zone of this machine. Called by `current` for agents that name none."""

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from choir_common.wire.time_zones import TimeZone

LOCALTIME = Path("/etc/localtime")
ZONES = "zoneinfo/"
_UTC = frozenset({"Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"})

_ZONE: TypeAdapter[str] = TypeAdapter(TimeZone)


def host_timezone(localtime: Path = LOCALTIME) -> str:
    """Return the IANA name that the link /etc/localtime points to; UTC if it points to none."""
    try:
        _, found, name = str(localtime.readlink()).rpartition(ZONES)
    except OSError:  # no link: a copy, or nothing, as in a container
        return "UTC"
    try:
        zone = _ZONE.validate_python(name)
    except ValidationError:
        return "UTC"
    return zone if found and zone not in _UTC else "UTC"
