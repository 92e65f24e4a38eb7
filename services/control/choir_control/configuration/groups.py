"""Checks of the conversations that are groups. Pure functions."""

from collections.abc import Iterator

from choir_common.wire.channel_config import DmConfig
from choir_common.wire.channel_types import types_with_groups
from choir_common.wire.config import Config
from choir_control.configuration.people import PersonRegistry


def find_group_faults(config: Config) -> Iterator[str]:
    """Yield every fault, with the path in the file and the remedy."""
    first_names: dict[tuple[str, str, str], str] = {}
    for name, dm in config.dms.items():
        if (dm.user_id is None) == (dm.chat_id is None):
            yield f"dms.{name}: name either a user (user_id) or a group (chat_id)"
        elif dm.chat_id is None:
            yield from _private(name, dm, config)
        else:
            yield from _group(name, dm, config)
            place = (dm.gateway, dm.chat_id, dm.topic or "")
            first = first_names.setdefault(place, name)
            if first != name:
                yield f"dms.{name}: this group or topic is already dms.{first}; remove one of the two"
    people = PersonRegistry(config, {})
    if first_names and not any(people.is_admin(name) for name in config.dms):
        yield (
            f"dms.{next(iter(first_names.values()))}: nobody could approve what a group asks for; give an "
            "owner or admin a conversation of their own in dms"
        )


def _private(name: str, dm: DmConfig, config: Config) -> Iterator[str]:
    if dm.topic is not None or dm.answers != "addressed":
        yield f"dms.{name}: topic and answers are for groups (chat_id); remove them"
    gateway = config.gateways.get(dm.gateway)
    ids = gateway.channel.groups if gateway is not None else None
    # An id of a group as a user's would show everybody there what is for one person.
    if ids is not None and ids.are_never_users and ids.group.fullmatch(dm.user_id or ""):
        yield (
            f"dms.{name}.user_id: {dm.user_id!r} is {ids.group_text.partition(',')[0]}; write chat_id "
            "instead of user_id"
        )


def _group(name: str, dm: DmConfig, config: Config) -> Iterator[str]:
    if dm.admin:
        yield (
            f"dms.{name}.admin: a group is never an admin; its members have their own rights (people), so "
            "remove it"
        )
    gateway = config.gateways.get(dm.gateway)
    if gateway is None:
        return
    ids = gateway.channel.groups
    if ids is None:
        yield f"dms.{name}.chat_id: only a {types_with_groups()} gateway has groups"
        return
    if not ids.group.fullmatch(dm.chat_id or ""):
        yield f"dms.{name}.chat_id: {dm.chat_id!r} is not {ids.group_text}"
    if dm.topic is not None and not ids.topic.fullmatch(dm.topic):
        yield f"dms.{name}.topic: {dm.topic!r} is not {ids.topic_text}"
