"""People with their identities: list, link and unlink them."""

import asyncio

import structlog

from choir_common.errors import Conflict, Forbidden, NotFound
from choir_common.i18n import _
from choir_common.wire.people import IdentityView, PersonView
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.people import Identity
from choir_control.conversations.people.link_codes import LinkCodes
from choir_control.conversations.people.store import PersonIdentityStore

log = structlog.get_logger("choir.people")


class PersonLinks:
    """Service that links identities to people."""

    def __init__(
        self, store: PersonIdentityStore, *, configuration: ConfigService, codes: LinkCodes
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._codes = codes
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Put the stored links in force."""
        self._configuration.set_linked(await self._store.read_all())

    def list_all(self) -> list[PersonView]:
        """Return all people, sorted by name."""
        snapshot = self._configuration.current
        return [_view(snapshot, name) for name in sorted(snapshot.config.people)]

    def has(self, name: str) -> bool:
        """Return whether config.json has a person of this name."""
        return name in self._configuration.current.config.people

    def show(self, name: str) -> PersonView:
        """Return a person; raises NotFound."""
        snapshot = self._configuration.current
        _require_person(snapshot, name)
        return _view(snapshot, name)

    async def link(self, name: str, identity: Identity, by: str) -> PersonView:
        """Give an identity to a person.

        Raises NotFound for an unknown person or gateway, and Conflict if the identity is somebody's already:
        nobody can take an owner's identity away, or give away the own one.
        """
        async with self._lock:
            snapshot = self._configuration.current
            _require_person(snapshot, name)
            if identity[0] not in snapshot.config.gateways:
                raise NotFound(
                    _("There is no gateway {identity!r} in config.json.").format(
                        identity=identity[0][:64]
                    )
                )
            holder = snapshot.people.person_of(identity)
            if holder is not None:
                raise Conflict(
                    _(
                        "This user is {holder} already. Nothing was changed; an operator can unlink it "
                        "(`choirctl person unlink`), or it is in config.json."
                    ).format(holder=holder)
                )
            await self._store.add(identity, name, by)
            await self.load()
        log.info("identity linked", person=name, gateway=identity[0], by=by)
        return self.show(name)

    async def unlink(self, name: str, identity: Identity) -> PersonView:
        """Take a linked identity from a person; raises NotFound, also for identities in config.json."""
        async with self._lock:
            _require_person(self._configuration.current, name)
            if not await self._store.remove(identity, name):
                raise NotFound(
                    _(
                        "{name} has no link to this user. Identities in config.json are removed there."
                    ).format(name=name)
                )
            await self.load()
        log.info("identity unlinked", person=name, gateway=identity[0])
        return self.show(name)

    def create_code(self, dm: str) -> str:
        """Return a code with which another identity becomes the person of a conversation.

        Raises Forbidden if the conversation is nobody's, or a group, where everybody would see the code.
        """
        _refuse_group(self._configuration.current, dm)
        name = self._configuration.current.people.person_in(dm)
        if name is None:
            raise Forbidden(
                _(
                    "This conversation belongs to nobody in `people` of config.json, so there is nothing "
                    "to link."
                )
            )
        return self._codes.create(name)

    async def redeem_code(self, dm: str, code: str) -> PersonView:
        """Give the identity of a conversation to the person of a code.

        Raises Forbidden for a code that is not valid, and the errors of `link`.
        """
        people = self._configuration.current.people
        _refuse_group(self._configuration.current, dm)
        identity = people.identity_in(dm)
        if identity is None:
            raise NotFound(_("This conversation is not in config.json."))
        # Before the code is used up, and so that the identity of somebody cannot be given away.
        holder = people.person_of(identity)
        if holder is not None:
            raise Conflict(
                _("This conversation is {holder}'s already. Nothing was changed.").format(
                    holder=holder
                )
            )
        name = self._codes.redeem(identity, code)
        if name is None:
            raise Forbidden(
                _("This code is not valid. Type /link in the other conversation for a new one.")
            )
        return await self.link(name, identity, f"dm {dm}")


def _require_person(snapshot: ConfigSnapshot, name: str) -> None:
    if name not in snapshot.config.people:
        names = ", ".join(sorted(snapshot.config.people)) or _("nobody")
        raise NotFound(
            _("There is no person {name!r} in config.json (it has {names}).").format(
                name=name[:64], names=names
            )
        )


def _refuse_group(snapshot: ConfigSnapshot, dm: str) -> None:
    if snapshot.people.is_group(dm):
        raise Forbidden(_("This is a group; type /link in your own conversation with the bot."))


def _view(snapshot: ConfigSnapshot, name: str) -> PersonView:
    config, people = snapshot.config, snapshot.people
    person = config.people[name]
    own = [(it.gateway, it.user) for it in person.identities]
    links = [
        identity
        for identity in snapshot.linked
        if identity not in own and people.person_of(identity) == name
    ]
    dms = {dm: people.identity_in(dm) for dm in config.dms}
    return PersonView(
        name=name,
        role=person.role,
        timezone=person.timezone,
        language=person.language,
        identities=tuple(
            IdentityView(
                gateway=gateway,
                user=user,
                source="config" if (gateway, user) in own else "link",
                dms=tuple(sorted(dm for dm, it in dms.items() if it == (gateway, user))),
            )
            for gateway, user in (*own, *sorted(links))
        ),
    )
