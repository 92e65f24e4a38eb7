"""The script of a simulated year: a seeded list of actions, each with the time at which it happens.

All times are in the past of the database's clock, or 70 years ahead, because some statements compare a
validity with the database's `now()`.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import cycle

from choir_common.wire.config import MemoryPrompts
from choir_common.wire.memory_collections import AddDocument
from choir_common.wire.memory_config import RetentionConfig
from choir_common.wire.memory_forget import ForgetSelection
from choir_common.wire.memory_search import MemoryUpsert
from tests.faults.year.steps import (
    AGENT,
    Action,
    AddText,
    Archive,
    ChangeFolder,
    ChangeModel,
    Configure,
    Forget,
    Maintain,
    Step,
    WriteNote,
)
from tests.faults.year.texts import COMPLAINTS, LANGUAGES, Language
from tests.support.sessions import LogBuilder

INCOGNITO_WORD = "quagmarine"
"""Said in incognito sessions only."""
FAR = datetime(2090, 1, 1, tzinfo=UTC)


class YearWriter:
    """Writer of a script of `days` days; the same seed gives the same script.

    Special events, such as a change of the model, share days that are `special_every` days apart: fewer days
    with events make a shorter run.
    """

    def __init__(
        self,
        seed: int,
        *,
        first: date,
        days: int,
        sessions_per_day: float,
        special_every: int = 1,
    ) -> None:
        self._random = random.Random(f"{seed}/{first}/{days}")
        self._first = datetime(first.year, first.month, first.day, tzinfo=UTC)
        self._days = days
        self._sessions_per_day = sessions_per_day
        self._special_every = special_every
        self._sessions: list[str] = []
        self._keys: list[str] = []
        self._calls = 0
        # in turn, so that a month has all of them
        self._languages = cycle(LANGUAGES.values())
        self._topics = {language: cycle(language.topics) for language in LANGUAGES.values()}

    def write(self) -> list[Step]:
        """Return all steps, the last one some days after the end, when every period is over."""
        specials: dict[int, list[Action]] = {}
        for share, action in self._specials():
            every = self._special_every
            specials.setdefault(round(share * (self._days - 1) / every) * every, []).append(action)
        steps: list[Step] = []
        for day in range(self._days):
            start = self._first + timedelta(days=day)
            actions: list[Action] = []
            if self._random.random() < self._sessions_per_day or day in specials:
                actions += [self._session(start), *self._notes(start)]
            actions += [self._complete(action, start) for action in specials.get(day, [])]
            steps += [
                Step(start + timedelta(hours=14, minutes=number), action)
                for number, action in enumerate(actions)
            ]
            if actions:
                steps.append(Step(start + timedelta(hours=23), Maintain()))
        end = self._first + timedelta(days=self._days + 4, hours=12)
        return [*steps, Step(end, Maintain())]

    def _specials(self) -> Iterator[tuple[float, Action]]:
        """Yield what happens once or a few times, with the share of the year that is over then."""
        yield (
            0.05,
            ChangeFolder(
                {"spare.md": "# Spares\nThe spare key is under the fern.", "b.txt": "Box B: skates"}
            ),
        )
        yield (
            0.2,
            ChangeFolder(
                {"sub/boiler.txt": "The boiler is serviced each May.", "b.txt": "Box B: sledge"}
            ),
        )
        yield 0.7, ChangeFolder({"spare.md": None}, {"b.txt": "cellar.txt"})
        yield (
            0.95,
            ChangeFolder({"attic.html": "<h1>Attic</h1><p>The trunk holds the letters.</p>"}),
        )
        for share, text in (
            (0.15, "The warranty ends in 2023."),
            (0.5, "The warranty ends in 2024."),
        ):
            yield (
                share,
                AddText(
                    AddDocument(agent_id=AGENT, collection="papers", name="warranty.md", text=text)
                ),
            )
        for share in (0.1, 0.35, 0.8):
            yield share, Archive(LogBuilder(), incognito=True)
        yield (
            0.25,
            Configure(prompts=MemoryPrompts(extraction="Keep what the user says about home.")),
        )
        yield 0.5, Configure(retention=RetentionConfig(plan="pro", turns=self._days * 4 // 5))
        # the words and the periods are completed from the sessions until then
        yield 0.3, Forget(ForgetSelection(scope="learned", session_id="latest"))
        yield 0.4, Forget(ForgetSelection(words="latest"))
        yield 0.55, Forget(ForgetSelection(scope="learned", since=self._first, until=FAR))
        yield 0.6, Forget(ForgetSelection(session_id="latest"))
        yield 0.65, Forget(ForgetSelection(since=self._first, until=FAR))
        yield 0.75, ChangeModel("autumn-model", 96)
        yield 0.85, Forget(ForgetSelection(scope="said", session_id="latest"))

    def _complete(self, action: Action, start: datetime) -> Action:
        """Return an action with what only this day knows."""
        if isinstance(action, Archive):
            return Archive(self._incognito_log(start), incognito=True)
        if not isinstance(action, Forget):
            return action
        selection = action.selection
        if selection.since is not None:
            # from yesterday evening on until the evening, as in "forget today"
            update: dict[str, object] = {
                "since": start - timedelta(hours=6),
                "until": start + timedelta(hours=13),
            }
        elif selection.words is not None:
            update = {"words": self._sessions[-2].replace("s", "otter", 1)}
        else:
            update = {"session_id": self._sessions.pop(-2 if selection.scope != "said" else -1)}
        return Forget(selection.model_copy(update=update))

    def _session(self, start: datetime) -> Archive:
        number = (start - self._first).days
        session_id = f"s{number:03}"
        self._sessions.append(session_id)
        log = LogBuilder(session_id, AGENT, start + timedelta(hours=9))
        log.start()
        language = next(self._languages)
        for turn in range(self._random.randint(2, 5)):
            self._exchange(log, f"{session_id}-{turn}", language)
        if self._random.random() < 0.3:
            self._add_failure(log, f"{session_id}-f")
        log.user(f"The word of the day is otter{number:03}.", f"{session_id}-w")
        log.reply("I will remember it until tonight.", f"{session_id}-w")
        summary = f"The user and the assistant talked on day {number}: {language.chat[0]}"
        log.stop(summary, [("Small talk", language.advice[0])])
        return Archive(log)

    def _exchange(self, log: LogBuilder, turn: str, language: Language) -> None:
        chance = self._random.random()
        if chance < 0.6:
            topic = next(self._topics[language])
            text = f"{topic.say(self._random.choice(topic.values))} {self._random.choice(language.chat)}"
        elif chance < 0.7:
            text = self._random.choice(COMPLAINTS)
        else:
            text = self._random.choice(language.chat)
        log.user(text, turn)
        long_answer = self._random.choices(language.advice, k=self._random.randint(2, 5))
        log.reply(" ".join(["So you say:", text, *long_answer]), turn)

    def _add_failure(self, log: LogBuilder, turn: str) -> None:
        """Add a command that fails, and is tried again with success."""
        option = self._random.choice(("fast", "safe", "plain"))
        log.user("Please build it.", turn)
        for attempt, code in enumerate((2, 0)):
            call = f"{turn}-{attempt}"
            command = f"make build {option}" + " clean" * attempt
            log.tool_call(call, "choir.exec", {"command": command}, turn)
            log.result(
                call, "choir.exec", {"exit_code": code, "stdout": f"stale {option} cache"}, turn
            )
        log.reply("It is built.", turn)

    def _incognito_log(self, start: datetime) -> LogBuilder:
        log = LogBuilder(f"x{(start - self._first).days:03}", AGENT, start + timedelta(hours=8))
        log.start()
        log.user(f"I live in {INCOGNITO_WORD} now.", "t")
        log.reply(f"{INCOGNITO_WORD} it is.", "t")
        log.stop(f"About {INCOGNITO_WORD}.")
        return log

    def _notes(self, start: datetime) -> Iterator[Action]:
        for _ in range(self._random.choice((0, 1, 2))):
            by_operator = self._random.random() < 0.2
            yield WriteNote(self._note(start), by_operator)

    def _note(self, start: datetime) -> MemoryUpsert:
        self._calls += 1
        key = f"note.{self._calls:03}"
        fields: dict[str, object] = {
            "agent_id": AGENT,
            "call_id": f"call-{self._calls}",
            "operation": "update",
        }
        if len(self._keys) < 4:
            return self._new_note(key, fields, start)
        known = self._random.choice(self._keys)
        more: dict[str, object]
        match self._random.randrange(7):
            case 0:
                more = {"key": known, "text": f"Rewritten on {start:%d %B}: the shed is green."}
            case 1:
                more = {"key": known, "status": "held"}
            case 2:
                more = {"key": known, "status": "retired"}
            case 3:
                self._keys.remove(known)
                more = {"key": known, "operation": "delete"}
            case 4:
                self._keys.append(key)
                text = f"The rota of {start:%d %B} replaces an older one."
                more = {"key": key, "text": text, "supersedes": (known,), "valid_from": start}
            case 5:
                until = self._random.choice((start + timedelta(days=3), FAR))
                self._keys.append(key)
                text = f"The offer {key} is limited."
                more = {"key": key, "text": text, "valid_from": start, "valid_to": until}
            case _:
                return self._new_note(key, fields, start)
        return MemoryUpsert.model_validate(fields | more)

    def _new_note(self, key: str, fields: dict[str, object], start: datetime) -> MemoryUpsert:
        scope = self._random.choice(("home", "work"))
        more: dict[str, object] = {
            "key": key,
            "text": f"Note {key}: the {scope} bin goes out on day {start:%j}.",
            "metadata": {"scope": scope, "week": start.isocalendar().week},
        }
        if self._random.random() < 0.3:
            # forgotten with its session, so no later step may name it
            more["session_id"] = self._sessions[-1]
        else:
            self._keys.append(key)
        return MemoryUpsert.model_validate(fields | more)
