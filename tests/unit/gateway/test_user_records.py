"""What channels store about a user is erased, and what was handled is still recognised."""

import time
from pathlib import Path

from choir_common.wire.attachments import Button
from choir_gateway.channels.matrix.state_store import MatrixStateStore, Question
from choir_gateway.channels.signal.state_store import SignalQuestion, SignalStateStore
from choir_gateway.channels.whatsapp.journal import MessageJournal

ADA, BOB = "491701234567", "491707654321"


async def test_whatsapps_journal_names_no_erased_user_and_recognises_repetitions(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "number.jsonl", time.time()
    journal = MessageJournal(path)
    for user, message in ((ADA, "wamid.a1"), (BOB, "wamid.b1"), (ADA, "wamid.a2")):
        journal.note_arrival(user, message, now)
        await journal.record(user, message, now)
    assert await journal.erase_user(ADA) == 2
    assert await journal.erase_user(ADA) == 0
    assert ADA not in path.read_text() and "wamid.a" not in path.read_text()
    # the window opens with the next message, also after a restart
    for it in (journal, MessageJournal(path)):
        assert all(it.is_handled(message, now) for message in ("wamid.a1", "wamid.a2", "wamid.b1"))
        assert it.last_message(ADA) is None and it.last_message(BOB) is not None


async def test_matrix_forgets_the_questions_to_an_erased_user(tmp_path: Path) -> None:
    store = MatrixStateStore(tmp_path / "account.json")
    questions = tuple(
        Question(
            key=user,
            user_id=user,
            room_id="!r",
            first=1,
            buttons=(Button(label=f"pay {user}", data="v"),),
        )
        for user in ("@ada:home", "@bob:home")
    )
    await store.replace_questions(questions, 3)
    await store.replace_invites({"!1": "@ada:home", "!2": "@eve:home"})
    assert await store.erase_user("@ada:home") == 2
    stored = MatrixStateStore(tmp_path / "account.json").state
    assert stored.questions == questions[1:] and stored.invites == {"!2": "@eve:home"}


async def test_signals_state_names_no_erased_user_and_recognises_repetitions(
    tmp_path: Path,
) -> None:
    path, ada, bob = tmp_path / "account.json", "a" * 32, "b" * 32
    store = SignalStateStore(path)
    for user in (ada, bob):
        await store.note_handled(f"1700000000000/{user}", user)
    question = SignalQuestion(
        key="k", user_id=ada, first=1, buttons=(Button(label="pay", data="v"),)
    )
    await store.replace_questions((question,), 2)
    assert await store.erase_user(ada) == 2
    assert await store.erase_user(ada) == 0
    text = path.read_text()
    assert ada not in text and bob in text
    assert all(SignalStateStore(path).is_handled(f"1700000000000/{it}") for it in (ada, bob))
