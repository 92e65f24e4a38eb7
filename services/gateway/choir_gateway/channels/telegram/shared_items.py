"""Locations, venues and contacts of messages as text that an agent understands. Pure."""

from telegram import Contact, Location, Message, Venue

MAX_FIELD = 200


def describe_shared_item(message: Message) -> str | None:
    """Return the location, venue or contact of a message as text; None if it has none of them."""
    # A venue also has its location in `location`.
    if message.venue is not None:
        return _describe_venue(message.venue)
    if message.location is not None:
        return _describe_location(message.location, is_edit=message.edit_date is not None)
    if message.contact is not None:
        return _describe_contact(message.contact)
    return None


def is_live_update(message: Message) -> bool:
    """Return True for an update of a live location that is still shared.

    Telegram sends one every few seconds. The first position and the last one are messages; these are not.
    """
    location = message.location
    return (
        message.edit_date is not None
        and location is not None
        and message.venue is None
        and location.live_period is not None
    )


def _describe_location(location: Location, *, is_edit: bool) -> str:
    position = _position(location)
    if location.live_period is not None:
        return (
            f"[The user shares a live location. Its position now: {position}. You get the last position when "
            "it ends.]"
        )
    if is_edit:
        return f"[The live location has ended. Its last position: {position}.]"
    return f"[The user sent a location: {position}.]"


def _describe_venue(venue: Venue) -> str:
    return (
        f"[The user sent a place: {_line(venue.title)}, {_line(venue.address)}; "
        f"{_position(venue.location)}.]"
    )


def _describe_contact(contact: Contact) -> str:
    name = " ".join(filter(None, (contact.first_name, contact.last_name)))
    account = f"; Telegram user {contact.user_id}" if contact.user_id is not None else ""
    return (
        f"[The user sent a contact: {_line(name)}, phone {_line(contact.phone_number)}{account}.]"
    )


def _position(location: Location) -> str:
    accuracy = location.horizontal_accuracy
    within = f", within {accuracy:.0f} m" if accuracy else ""
    return f"latitude {location.latitude:.6f}, longitude {location.longitude:.6f}{within}"


def _line(text: str) -> str:
    """Return a field of the sender on one line, cut to a length that no name exceeds."""
    return " ".join(text.split())[:MAX_FIELD]
