"""Questions with buttons: Matrix has none, so each choice has a number, and the common ones an emoji.

A number is a choice only as a reply to its question, or while no message of an agent came after the question:
an agent could otherwise ask for a number that approves something. Numbers continue from question to
question, so that a late answer to one is no answer to the next.
"""

from collections.abc import Sequence

from choir_common.wire.attachments import Button
from choir_gateway.channels.choices import Choices, number_choices, parse_number
from choir_gateway.channels.matrix.state_store import MatrixStateStore, Question

MAX_QUESTIONS = 50


class QuestionBook:
    """The open questions of one gateway."""

    def __init__(self, store: MatrixStateStore) -> None:
        self._store = store

    async def open(
        self, key: str, user_id: str, room_id: str, buttons: tuple[Button, ...]
    ) -> Choices:
        """Assign numbers to the choices of a question; a repetition gets the same numbers."""
        state = self._store.state
        earlier = next((it for it in state.questions if it.key == key), None)
        if earlier is not None and earlier.buttons == buttons:
            return Choices(earlier.first, buttons)
        choices = number_choices(state.next_number, buttons)
        question = Question(
            key=key, user_id=user_id, room_id=room_id, first=choices.first, buttons=buttons
        )
        others = tuple(it for it in state.questions if it.key != key)
        await self._store.replace_questions(
            (*others, question)[-MAX_QUESTIONS:], choices.first + len(buttons)
        )
        return choices

    async def note_sent(self, key: str, event_id: str) -> None:
        """Record the event of a question."""
        await self._replace(
            [
                it.model_copy(update={"event_id": event_id}) if it.key == key else it
                for it in self._store.state.questions
                if it.key == key or it.event_id != event_id
            ]
        )

    async def close(self, event_id: str) -> None:
        """Remove the question of an event, which is being replaced."""
        await self._replace([it for it in self._store.state.questions if it.event_id != event_id])

    async def note_message(self, user_id: str) -> None:
        """Record that another message to a user comes after the questions."""
        await self._replace(
            [
                it.model_copy(update={"is_latest": False}) if it.user_id == user_id else it
                for it in self._store.state.questions
            ]
        )

    def find_by_reaction(
        self, user_id: str, room_id: str, event_id: str | None, emoji: str | None
    ) -> Button | None:
        """Return the button that a user's reaction means."""
        question = self._find(user_id, room_id, event_id)
        return _choices(question).by_emoji(emoji or "") if question else None

    def find_by_number(
        self, user_id: str, room_id: str, text: str, reply_to: str | None
    ) -> Button | None:
        """Return the button that a user's text means; None if the text is a message."""
        number = parse_number(text)
        if number is None:
            return None
        if reply_to is not None:
            question = self._find(user_id, room_id, reply_to)
            return _choices(question).by_number(number) if question else None
        for question in self._store.state.questions:
            is_here = (question.user_id, question.room_id) == (user_id, room_id)
            button = _choices(question).by_number(number)
            if is_here and question.is_latest and question.event_id and button:
                return button
        return None

    def _find(self, user_id: str, room_id: str, event_id: str | None) -> Question | None:
        for question in self._store.state.questions:
            place = (question.user_id, question.room_id, question.event_id)
            if event_id is not None and place == (user_id, room_id, event_id):
                return question
        return None

    async def _replace(self, questions: Sequence[Question]) -> None:
        await self._store.replace_questions(tuple(questions), self._store.state.next_number)


def _choices(question: Question) -> Choices:
    return Choices(question.first, question.buttons)
