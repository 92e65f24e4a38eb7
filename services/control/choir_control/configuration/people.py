"""Who the users of conversations are, and what they may do: people, linked identities, paired users.

Pure. Without a section `people` the flag `admin` of a conversation decides alone. A group has no rights: who
speaks there has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from choir_common.i18n import choose_language
from choir_common.wire.agent_questions import is_question_dm
from choir_common.wire.api_clients import is_client_dm
from choir_common.wire.channel_config import DmConfig
from choir_common.wire.config import Config
from choir_common.wire.people_config import PersonRole
from choir_common.wire.signals import MessageSender
from choir_common.wire.speakers import UNKNOWN_NAME, GroupMember
from choir_control.configuration.pairing import PairedUser

Rank = Literal["admin", "user", "member", "guest"]
"""What may be done in a conversation. `user`: of a configuration without people, where everybody decides on
what is asked in the own conversation."""
Identity = tuple[str, str]
"""A gateway and a user of it."""

_RANKS: Mapping[PersonRole, Rank] = {
    "owner": "admin",
    "admin": "admin",
    "member": "member",
    "guest": "guest",
}
_GROUP_ROLES: Mapping[Rank, PersonRole] = {
    "admin": "admin",
    "user": "member",
    "member": "member",
    "guest": "guest",
}
"""The role of a user of a group who is nobody in `people`."""


@dataclass(frozen=True, slots=True)
class UserLanguage:
    """What is known of the language of a person, or of a conversation that is nobody's; tags or empty."""

    app: str = ""
    """The language of the user's app, as the channel said it last."""
    choice: str = ""
    """The choice by `/language`."""


@dataclass(frozen=True, slots=True)
class PersonRegistry:
    """The people of one configuration with their linked identities."""

    config: Config
    linked: Mapping[Identity, str]
    """The person of each identity that `/link` or an operator has linked."""
    paired: Mapping[str, PairedUser] = field(default_factory=dict)
    """Paired users by the name of their conversation."""
    languages: Mapping[str, UserLanguage] = field(default_factory=dict)
    """The languages that users have chosen and their apps have said, by `language_owner`."""

    def language_in(self, dm: str) -> str:
        """Return the language of Choir's messages in a conversation: one of `i18n.LANGUAGES`.

        The user's choice comes first, then the settings of the conversation and of its person, then what the
        user's app has said.
        """
        conversation = self.config.dms.get(dm)
        person = self.config.people.get(self.person_in(dm) or "")
        user = self.user_language(dm)
        return choose_language(
            user.choice,
            conversation.language if conversation else "",
            person.language if person else "",
            user.app,
        )

    def user_language(self, dm: str) -> UserLanguage:
        """Return what the user of a conversation has chosen, and what the user's app has said."""
        return self.languages.get(self.language_owner(dm), UserLanguage())

    def language_owner(self, dm: str) -> str:
        """Return whose language a conversation has: the person's, in all conversations, or its own."""
        person = self.person_in(dm)
        return f"dm {dm}" if person is None else f"person {person}"

    def person_of(self, identity: Identity) -> str | None:
        """Return the person of an identity, or None. config.json takes precedence over links."""
        for name, person in self.config.people.items():
            if any((it.gateway, it.user) == identity for it in person.identities):
                return name
        name = self.linked.get(identity, "")
        return name if name in self.config.people else None

    def person_in(self, dm: str) -> str | None:
        """Return the person who talks in a conversation, or None."""
        identity = self.identity_in(dm)
        return None if identity is None else self.person_of(identity)

    def identity_in(self, dm: str) -> Identity | None:
        """Return the identity of a conversation, or None for an unknown one and for a group."""
        user = self.config.dms.get(dm)
        return None if user is None or user.user_id is None else (user.gateway, user.user_id)

    def is_group(self, dm: str) -> bool:
        """Return whether a conversation is a group."""
        conversation = self.config.dms.get(dm)
        return conversation is not None and conversation.is_group

    def rank_in(self, dm: str) -> Rank:
        """Return what may be done in a conversation; for a group, by somebody unknown."""
        user, name = self.config.dms.get(dm), self.person_in(dm)
        if (user is not None and user.is_group) or is_question_dm(dm):
            return "guest"
        if name is not None:
            return _RANKS[self.config.people[name].role]
        if dm in self.paired:
            return _RANKS[self.paired[dm].role]
        if user is not None and user.admin:
            return "admin"
        return "member" if self.config.people else "user"

    def rank_of(self, dm: str, author: GroupMember | None) -> Rank:
        """Return what the author of a message may do in its conversation.

        In a group, a user who is nobody in `people` is an admin or a member as in the own private
        conversation, or else a guest.
        """
        group = self.config.dms.get(dm)
        if group is None or not group.is_group or author is None:
            return self.rank_in(dm)
        name = self.person_of((group.gateway, author.user_id))
        if name is not None:
            return _RANKS[self.config.people[name].role]
        private = self._find_private(group, author)
        rank = "guest" if private is None else self.rank_in(private)
        return "member" if rank == "user" else rank

    def is_admin(self, dm: str) -> bool:
        """Return whether the user of a conversation has all rights."""
        return self.rank_in(dm) == "admin"

    def may_decide(self, dm: str) -> bool:
        """Return whether the user of a conversation may decide on approvals and money of its own."""
        return self.rank_in(dm) in ("admin", "user")

    def find_decider(self, asking_dm: str, dms: Sequence[str]) -> str:
        """Return the conversation that decides on a request of another one.

        That is itself if it may decide; else an admin's among the agent's conversations `dms`, or any
        admin's; else itself, and operators decide.
        """
        others = (dm for dm in (*dms, *sorted(self.config.dms)) if not is_client_dm(dm))
        candidates = (asking_dm, *others)
        own = self.may_decide(asking_dm) or (is_question_dm(asking_dm) and not self.config.people)
        may = self.may_decide if own else self.is_admin
        return next((dm for dm in candidates if may(dm)), asking_dm)

    def find_sender(self, dm: str, author: GroupMember | None = None) -> MessageSender | None:
        """Return who wrote a message, as agents are told.

        None for a user who is nobody in `people`, in the own conversation. A paired user is told: agents take
        a larger budget from a sender of whom they know nothing.
        """
        group = self.config.dms.get(dm)
        if group is not None and group.is_group:
            return self._find_group_sender(dm, group, author)
        name = self.person_in(dm)
        if name is None:
            paired = self.paired.get(dm)
            return MessageSender(name=dm, role=paired.role) if paired else None
        person, user = self.config.people[name], self.config.dms[dm]
        return MessageSender(
            name=name,
            role=person.role,
            timezone=user.timezone or person.timezone or "",
            language=self.user_language(dm).choice or person.language,
        )

    def _find_group_sender(
        self, dm: str, group: DmConfig, author: GroupMember | None
    ) -> MessageSender:
        if author is None:
            return MessageSender(display_name=UNKNOWN_NAME)
        name = self.person_of((group.gateway, author.user_id))
        if name is None:
            role = _GROUP_ROLES[self.rank_of(dm, author)]
            return MessageSender(role=role, display_name=author.name)
        person = self.config.people[name]
        return MessageSender(
            name=name,
            role=person.role,
            display_name=author.name,
            timezone=person.timezone or "",
            language=person.language,
        )

    def _find_private(self, group: DmConfig, author: GroupMember) -> str | None:
        """Return the private conversation of a group's member on the same gateway, or None."""
        identity = (group.gateway, author.user_id)
        dms = self.config.dms.items()
        return next((name for name, dm in dms if (dm.gateway, dm.user_id) == identity), None)
