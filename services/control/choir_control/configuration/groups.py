"""Checks of the conversations that are groups. Pure functions."""

from collections.abc import Iterator

from choir_common.i18n import _
from choir_common.wire.channel_config import DmConfig
from choir_common.wire.channel_types import types_with_groups
from choir_common.wire.config import Config
from choir_control.configuration.people import PersonRegistry


def find_group_faults(config: Config) -> Iterator[str]:
    """Yield every fault, with the path in the file and the remedy."""
    first_names: dict[tuple[str, str, str], str] = {}
    for name, dm in config.dms.items():
        if (dm.user_id is None) == (dm.chat_id is None):
            yield _("dms.{name}: name either a user (user_id) or a group (chat_id)").format(
                name=name
            )
        elif dm.chat_id is None:
            yield from _private(name, dm, config)
        else:
            yield from _group(name, dm, config)
            place = (dm.gateway, dm.chat_id, dm.topic or "")
            first = first_names.setdefault(place, name)
            if first != name:
                yield _(
                    "dms.{name}: this group or topic is already dms.{first}; remove one of the two"
                ).format(name=name, first=first)
    people = PersonRegistry(config, {})
    if first_names and not any(people.is_admin(name) for name in config.dms):
        yield (
            _(
                "dms.{name}: nobody could approve what a group asks for; give an owner or admin a "
                "conversation of their own in dms"
            ).format(name=next(iter(first_names.values())))
        )


def _private(name: str, dm: DmConfig, config: Config) -> Iterator[str]:
    if dm.topic is not None or dm.answers != "addressed":
        yield _("dms.{name}: topic and answers are for groups (chat_id); remove them").format(
            name=name
        )
    gateway = config.gateways.get(dm.gateway)
    ids = gateway.channel.groups if gateway is not None else None
    # An id of a group as a user's would show everybody there what is for one person.
    if ids is not None and ids.are_never_users and ids.group.fullmatch(dm.user_id or ""):
        yield (
            _(
                "dms.{name}.user_id: {user_id!r} is the id of a group; write chat_id instead of user_id"
            ).format(name=name, user_id=dm.user_id)
        )


def _group(name: str, dm: DmConfig, config: Config) -> Iterator[str]:
    if dm.admin:
        yield (
            _(
                "dms.{name}.admin: a group is never an admin; its members have their own rights "
                "(people), so remove it"
            ).format(name=name)
        )
    gateway = config.gateways.get(dm.gateway)
    if gateway is None:
        return
    ids = gateway.channel.groups
    if ids is None:
        yield _("dms.{name}.chat_id: only a {types_with_groups} gateway has groups").format(
            name=name, types_with_groups=types_with_groups()
        )
        return
    if not ids.group.fullmatch(dm.chat_id or ""):
        yield _("dms.{name}.chat_id: {chat_id!r} is not {group_text}").format(
            name=name, chat_id=dm.chat_id, group_text=ids.group_text
        )
    if dm.topic is not None and not ids.topic.fullmatch(dm.topic):
        yield _("dms.{name}.topic: {topic!r} is not {topic_text}").format(
            name=name, topic=dm.topic, topic_text=ids.topic_text
        )
