"""The open questions of one gateway: Signal has no buttons, so choices are taken by a number or a reaction.

A number is a choice only as a reply to its question, or while no message of an agent came after the question:
an agent could otherwise ask for a number that approves something. Numbers continue from question to
question, so that a late answer to one is no answer to the next. Questions are asked in private chats only.
"""

from collections.abc import Sequence

from choir_common.wire.attachments import Button
from choir_gateway.channels.choices import Choices, number_choices, parse_number
from choir_gateway.channels.signal.state_store import SignalQuestion, SignalStateStore

MAX_QUESTIONS = 50


class SignalQuestionBook:
    """The questions, kept in the file of the state."""

    def __init__(self, store: SignalStateStore) -> None:
        self._store = store

    async def open(self, key: str, user_id: str, buttons: tuple[Button, ...]) -> Choices:
        """Assign numbers to the choices of a question; a repetition gets the same numbers."""
        state = self._store.state
        earlier = next((it for it in state.questions if it.key == key), None)
        if earlier is not None and earlier.buttons == buttons:
            return _choices(earlier)
        choices = number_choices(state.next_number, buttons)
        question = SignalQuestion(key=key, user_id=user_id, first=choices.first, buttons=buttons)
        others = tuple(it for it in state.questions if it.key != key)
        await self._store.replace_questions(
            (*others, question)[-MAX_QUESTIONS:], choices.first + len(buttons)
        )
        return choices

    async def note_sent(self, key: str, message_id: str) -> None:
        """Record the message of a question."""
        await self._replace(
            [
                it.model_copy(update={"message_id": message_id}) if it.key == key else it
                for it in self._store.state.questions
            ]
        )

    async def close(self, message_id: str) -> None:
        """Remove the question of a message, which is being replaced."""
        await self._replace(
            [it for it in self._store.state.questions if it.message_id != message_id]
        )

    async def note_message(self, user_id: str, *, except_key: str = "") -> None:
        """Record that another message to a user comes after the questions but that of `except_key`."""
        await self._replace(
            [
                it.model_copy(update={"is_latest": False})
                if it.user_id == user_id and it.key != except_key
                else it
                for it in self._store.state.questions
            ]
        )

    def find_by_reaction(self, user_id: str, message_id: str, emoji: str) -> Button | None:
        """Return the button that a user's reaction means."""
        question = self._find(user_id, message_id)
        return _choices(question).by_emoji(emoji) if question else None

    def find_by_number(self, user_id: str, text: str, reply_to: str | None) -> Button | None:
        """Return the button that a user's text means; None if the text is a message."""
        number = parse_number(text)
        if number is None:
            return None
        if reply_to is not None:
            question = self._find(user_id, reply_to)
            return _choices(question).by_number(number) if question else None
        for question in self._store.state.questions:
            button = _choices(question).by_number(number)
            is_open = question.is_latest and question.message_id is not None
            if question.user_id == user_id and is_open and button is not None:
                return button
        return None

    def _find(self, user_id: str, message_id: str) -> SignalQuestion | None:
        questions = self._store.state.questions
        place = (user_id, message_id)
        return next((it for it in questions if (it.user_id, it.message_id) == place), None)

    async def _replace(self, questions: Sequence[SignalQuestion]) -> None:
        await self._store.replace_questions(tuple(questions), self._store.state.next_number)


def _choices(question: SignalQuestion) -> Choices:
    return Choices(question.first, question.buttons)
