"""People: their users of channels, pairings, and the erasure of what they said."""

from choir_client import operations
from choir_client._sync.connection import Connection
from choir_common.wire.erasure import ErasePerson, PersonErasurePreview
from choir_common.wire.operations import OperationStarted
from choir_common.wire.pairing import DecidePairing, PairingView
from choir_common.wire.people import LinkIdentity, PersonView

PersonList = list[PersonView]
PairingList = list[PairingView]


class People:
    """The people of a Choir, and the users who wait to be paired."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> PersonList:
        """Return people, their users of gateways, and paired users."""
        return (self._connection.call(operations.LIST_PEOPLE)).items

    def get(self, person: str) -> PersonView:
        """Return one person. Raises NotFound."""
        return self._connection.call(operations.SHOW_PERSON, {"name": person})

    def link(self, person: str, identity: LinkIdentity) -> PersonView:
        """Give a user of a gateway to a person. Raises NotFound, Conflict."""
        names = {"name": person}
        return self._connection.call(operations.LINK_IDENTITY, names, body=identity)

    def unlink(self, person: str, gateway: str, user: str) -> PersonView:
        """Take a linked user of a gateway from a person. Raises NotFound, Conflict."""
        names = {"name": person, "gateway": gateway, "user": user}
        return self._connection.call(operations.UNLINK_IDENTITY, names)

    def pairings(self) -> PairingList:
        """Return the unknown users who wait for a decision."""
        return (self._connection.call(operations.LIST_PAIRINGS)).items

    def decide_pairing(self, decision: DecidePairing) -> PairingView:
        """Allow or refuse a user by the code. Raises NotFound."""
        return self._connection.call(operations.DECIDE_PAIRING, body=decision)

    def remove_pairing(self, dm: str) -> None:
        """End the conversation of a paired user. Raises NotFound."""
        self._connection.call(operations.REMOVE_PAIRING, {"dm": dm})

    def preview_erasure(self, *, person: str = "", dm: str = "") -> PersonErasurePreview:
        """Return what an erasure of a person or a DM would remove. Raises NotFound."""
        if person:
            operation, names = operations.PREVIEW_PERSON_ERASURE, {"name": person}
        else:
            operation, names = operations.PREVIEW_DM_ERASURE, {"dm": dm}
        return self._connection.call(operation, names)

    def erase(self, preview: PersonErasurePreview) -> OperationStarted:
        """Erase what a preview shows. Raises Conflict if it has changed meanwhile."""
        body = ErasePerson(expected_digest=preview.digest)
        if preview.person:
            operation, names = operations.ERASE_PERSON, {"name": preview.person}
        else:
            operation, names = operations.ERASE_DM, {"dm": preview.dm}
        return self._connection.call(operation, names, body=body)
