"""A scripted person on Signal, who writes to the agent's account; made by `FakeSignal.user`."""

from dataclasses import dataclass
from typing import Protocol

from choir_common.wire.model import JsonObject
from choir_testing.signal.accounts import (
    OWN_ID,
    OWN_NUMBER,
    SignalAccounts,
    SignalChat,
    SignalFile,
    SignalMessage,
    make_group_id,
)


class EnvelopeSink(Protocol):
    """Where envelopes go."""

    def push(self, envelope: JsonObject) -> None:
        """Hand an envelope to all open connections; without one it is lost."""
        ...


@dataclass(slots=True)
class FakeSignalUser:
    """One person, in the private chat with the account or in a group."""

    account_id: str
    number: str | None
    name: str
    accounts: SignalAccounts
    sink: EnvelopeSink
    group: str | None = None
    """The name of the group in which the person writes."""

    @property
    def chat(self) -> SignalChat:
        """The chat in which the person writes."""
        return self.accounts.chat(make_group_id(self.group)[1] if self.group else self.account_id)

    def send(
        self, text: str, *, reply_to: SignalMessage | None = None, content: JsonObject | None = None
    ) -> SignalMessage:
        """Send a text; `content` adds fields to the message."""
        return self._post(SignalMessage(0, self.account_id, text), {**(content or {})}, reply_to)

    def send_file(
        self,
        name: str,
        content: bytes,
        mime: str,
        text: str = "",
        *,
        extra: JsonObject | None = None,
    ) -> SignalMessage:
        """Send a file; without a name it is as a recording or a photo."""
        file = SignalFile(name, content, mime)
        attachment: JsonObject = {
            "contentType": mime,
            "filename": name or None,
            "id": self.accounts.new_attachment(file),
            "size": len(content),
            "width": None,
            "height": None,
            "caption": None,
            "uploadTimestamp": 1,
        }
        message = SignalMessage(0, self.account_id, text, file=file)
        return self._post(message, {"attachments": [attachment], **(extra or {})})

    def send_other(self, content: JsonObject) -> int:
        """Send what is no text, such as a sticker or a new timer; return its time."""
        return self._push_data(content)

    def edit(self, message: SignalMessage, text: str) -> None:
        """Edit an own message; like the apps, refer to its newest version."""
        target = message.revisions[-1] if message.revisions else message.timestamp
        time = self.accounts.new_time()
        message.text = text
        message.revisions.append(time)
        data = self._data(time, {"message": text})
        self._push({"editMessage": {"targetSentTimestamp": target, "dataMessage": data}}, time)

    def delete(self, message: SignalMessage) -> None:
        """Delete an own message for everybody."""
        message.is_deleted = True
        self._push_data({"remoteDelete": {"timestamp": message.timestamp}})

    def react(self, message: SignalMessage, emoji: str) -> None:
        """Put an emoji on a message."""
        own = message.author == OWN_ID
        reaction: JsonObject = {
            "emoji": emoji,
            "targetAuthor": OWN_NUMBER if own else message.author,
            "targetAuthorNumber": OWN_NUMBER if own else None,
            "targetAuthorUuid": message.author,
            "targetSentTimestamp": message.timestamp,
            "isRemove": False,
        }
        self._push_data({"reaction": reaction})

    def type(self) -> None:
        """Begin to type."""
        self._push({"typingMessage": {"action": "STARTED", "timestamp": 1}}, 1)

    def repeat(self, message: SignalMessage) -> None:
        """Deliver a text again."""
        data = self._data(message.timestamp, {"message": message.text})
        self._push({"dataMessage": data}, message.timestamp)

    def leave(self) -> None:
        """Leave Signal."""
        self.accounts.unregistered |= {self.account_id, self.number or ""}

    def _post(
        self, message: SignalMessage, content: JsonObject, reply_to: SignalMessage | None = None
    ) -> SignalMessage:
        content["message"] = message.text or None
        if reply_to is not None:
            own = reply_to.author == OWN_ID
            content["quote"] = {
                "id": reply_to.timestamp,
                "author": OWN_NUMBER if own else reply_to.author,
                "authorNumber": OWN_NUMBER if own else None,
                "authorUuid": reply_to.author,
                "text": reply_to.text,
                "attachments": [],
            }
        message.timestamp = self._push_data(content)
        self.chat.messages.append(message)
        return message

    def _push_data(self, content: JsonObject) -> int:
        time = self.accounts.new_time()
        self._push({"dataMessage": self._data(time, content)}, time)
        return time

    def _data(self, time: int, content: JsonObject) -> JsonObject:
        data: JsonObject = {"timestamp": time, "message": None, "expiresInSeconds": 0}
        data |= {"isExpirationUpdate": False, "viewOnce": False, **content}
        if self.group is not None:
            data["groupInfo"] = {
                "groupId": make_group_id(self.group)[0],
                "groupName": self.group,
                "revision": 3,
                "type": "DELIVER",
            }
        return data

    def _push(self, content: JsonObject, time: int) -> None:
        envelope: JsonObject = {
            "source": self.number or self.account_id,
            "sourceNumber": self.number,
            "sourceUuid": self.account_id,
            "sourceName": self.name,
            "sourceDevice": 1,
            "timestamp": time,
            "serverReceivedTimestamp": time,
            "serverDeliveredTimestamp": time,
            **content,
        }
        self.sink.push(envelope)
