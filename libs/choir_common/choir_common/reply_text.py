"""Text of a streamed reply: drafts may begin again, but a client can only append. Pure."""

BREAK = "\n\n"


class ReplyText:
    """Turns the drafts and messages of a turn into pieces to append."""

    def __init__(self) -> None:
        self._draft = ""
        """The part of the draft that the client has."""
        self._has_text = False

    def grow(self, draft: str) -> str:
        """Return the new part of a draft.

        A draft that begins again is held back until it has more than what the client has.
        """
        if not draft.startswith(self._draft):
            return ""
        piece = draft[len(self._draft) :]
        self._draft = draft
        return self._show(piece)

    def add(self, message: str) -> str:
        """Return a message that was sent while the work continues, as a paragraph."""
        piece = (BREAK if self._has_text else "") + message + BREAK
        self._has_text = False  # the paragraph has ended
        return piece

    def finish(self, answer: str) -> str:
        """Return what the client lacks of the complete answer."""
        if answer.startswith(self._draft):
            return self._show(answer[len(self._draft) :])
        if self._draft and answer.startswith(self._draft.rstrip()):
            return self._show(answer[len(self._draft.rstrip()) :].lstrip())
        # the model began again, and the client has text that is no part of the answer
        return self._show((BREAK if self._has_text else "") + answer)

    def _show(self, piece: str) -> str:
        self._has_text = self._has_text or bool(piece)
        return piece
