"""A conversation whose model does what it reads: real log, fold, manifests and rule, without processes.

Each call goes the arbiter's way: request, question, result with its origins. `sent` holds what left the
agent. With `is_protected` false the taint rule sees nothing, so that each attack can be seen to succeed.
"""

from dataclasses import dataclass, field

from pydantic import JsonValue

from choir_agent.arbiter.call_policy import question_of_call, rule_call
from choir_agent.arbiter.host_rule import HostRule, NewHosts
from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.log.session_log import SessionLog
from choir_agent.provenance.data_flow import DataFlow
from choir_agent.provenance.result_origins import EndedCall, result_provenance
from choir_agent.provenance.taint_rule import TaintRule, runs_offline
from choir_agent.tools.builtin import (
    email_receive,
    email_send,
    fs_read,
    fs_search,
    fs_write,
    memory_query,
    memory_upsert,
    message_send,
    notion_query,
    schedule,
    shell,
    web_browse,
    web_search,
)
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_agent.working_memory.predecessor_session import load_carried_conversation
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.clock import SystemClock
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.hosts import find_url_hosts
from choir_common.policy import Destinations
from choir_common.redactor import Redactor
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    MemoryCompacted,
    ReferenceSummary,
    RemindersAdded,
    Reply,
    SessionStarted,
    SessionStopped,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.memory_recall import Reminder
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy, PolicyRule
from choir_common.wire.provenance import LaneTaint

EDGE = "edge"
SECRET = "the diary says 7341-blue-heron"
SERVICE = ToolManifest(
    LlmView("mcp.service", "A service of others.", {"type": "object"}),
    RuntimeView(
        timeout_ms=1,
        side_effect="external",
        idempotent=False,
        source=TOOL_OUTPUT,
        flow=DataFlow(
            outside=True, private=True, sends="network", reads_workspace=True, writes="files"
        ),
    ),
)
"""A tool that declares nothing, as the loader describes it."""
MANIFESTS = {
    manifest.name: manifest
    for manifest in (
        email_receive.MANIFEST,
        email_send.MANIFEST,
        fs_read.MANIFEST,
        fs_search.MANIFEST,
        fs_write.MANIFEST,
        memory_query.MANIFEST,
        memory_upsert.MANIFEST,
        message_send.MANIFEST,
        notion_query.MANIFEST,
        schedule.CREATE_MANIFEST,
        shell.MANIFEST,
        web_browse.MANIFEST,
        web_search.MANIFEST,
        SERVICE,
    )
}


@dataclass(frozen=True)
class Named:
    """A tool that only has a manifest."""

    manifest: ToolManifest

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        raise AssertionError


# Mail and new hosts ask by default, whatever was read before; here only the rule on untrusted text may ask.
NO_DEFAULT_QUESTIONS = AgentPolicy(
    rules=(PolicyRule(action="allow", tools=("choir.email.send", "choir.exec")),),
    known_hosts=("*",),
)


@dataclass
class Conversation:
    """A session and the workspace's files, which outlive it."""

    is_protected: bool = True
    says_yes: bool = False
    """Whether the person agrees to every question."""
    policy: AgentPolicy = NO_DEFAULT_QUESTIONS
    files: dict[str, str] = field(default_factory=lambda: {"diary.txt": SECRET})
    memories: list[tuple[str, int]] = field(default_factory=list)
    """What the agent noted, with its trust."""
    sent: list[str] = field(default_factory=list)
    """What left the agent without a person's yes."""
    questions: list[str] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.begin(None)

    def begin(self, started: SessionStarted | None) -> None:
        """Begin a session."""
        self.memory = WorkingMemory()
        self.log = SessionLog("ses", clock=SystemClock(), listener=self.memory, redactor=Redactor())
        self.rule = TaintRule(self.memory)
        self.commit(started or SessionStarted(agent_id="main", epoch=1))

    def commit(self, payload: EventPayload, lane: str = EDGE) -> None:
        """Append an event."""
        self.log.append(lane, payload)

    def say(self, text: str = "Please do it.", files: tuple[str, ...] = ()) -> None:
        """Have the user send a message, after the last one was answered."""
        self.calls += 1
        turn = f"t{self.calls}"
        attachments = tuple(
            ReceivedFile(name=name, kind="document", mime="text/plain", size=1, path=name)
            for name in files
        )
        if self.log.state.turn is not None:
            before = self.log.state.turn
            self.commit(
                Reply(
                    turn_id=before.turn_id,
                    dm="d",
                    text="Done.",
                    kind="answer",
                    answers=before.inbox_id,
                )
            )
        self.commit(
            UserMessageStarted(
                turn_id=turn, inbox_id=turn, dm="d", text=text, attachments=attachments
            )
        )

    def remind(self, text: str, trust: int = 50) -> None:
        """Have memory add a reminder to the message."""
        at = self.log.entries[-1].event().at
        reminder = Reminder.model_validate(
            {"document_id": "1", "kind": "fact", "text": text, "at": at, "trust": trust},
            strict=False,
        )
        self.commit(RemindersAdded(turn_id=self.turn_id(EDGE), reminders=(reminder,)))

    def turn_id(self, lane: str) -> str:
        """Return the open turn, or the job of a lane."""
        turn = self.log.state.turn
        if lane == EDGE:
            return turn.turn_id if turn is not None else ""
        return lane

    def lane_taint(self, lane: str) -> LaneTaint:
        """Return what the rule knows of a lane."""
        return self.log.state.taint.lane(lane) if self.is_protected else LaneTaint()

    def call(
        self, tool: str, arguments: JsonObject, output: JsonObject | None = None, lane: str = EDGE
    ) -> JsonObject | None:
        """Make a call; return its output, or None if a person was asked."""
        self.calls += 1
        call_id, turn_id = f"c{self.calls}", self.turn_id(lane)
        manifest = MANIFESTS[tool]
        path = str(arguments.get("path", "")) if tool.startswith("choir.fs.") else ""
        checked = CheckedCall(Named(manifest), arguments, path, ())
        self.commit(
            ToolCallRequested(turn_id=turn_id, call_id=call_id, tool=tool, input=arguments), lane
        )
        lane_taint = self.lane_taint(lane)
        known = HostRule(self.memory).known_recipients(tool)
        ruled = rule_call(self.policy, checked, lane, known_recipients=known)
        question = question_of_call(
            self.rule,
            ruled,
            checked,
            lane=lane,
            lane_taint=lane_taint,
            new_hosts=self._new_hosts(checked, ruled.call.destinations, lane),
        )
        if question is not None:
            self.questions.append(question.why)
        if question is not None and not self.says_yes:
            self.commit(
                ToolResultCommitted(
                    turn_id=turn_id, call_id=call_id, tool=tool, status="refused",
                    output={"code": "rejected"},
                ),
                lane,
            )  # fmt: skip
            return None
        offline = runs_offline(manifest.runtime.flow, arguments, lane_taint)
        approved = question is not None
        self.commit(
            ToolCallCommitted(turn_id=turn_id, call_id=call_id, tool=tool, approved=approved), lane
        )
        result = output or {}
        if not offline and question is None:
            self._send(tool, arguments)
        result = {**self._effect(tool, arguments, lane, offline=offline), **result}
        ended = EndedCall(tool, manifest.runtime.flow, arguments, result, path, offline)
        self.commit(
            ToolResultCommitted(
                turn_id=turn_id, call_id=call_id, tool=tool, status="success", output=result,
                provenance=result_provenance(ended, self.log.state.taint),
            ),
            lane,
        )  # fmt: skip
        return result

    def _new_hosts(self, checked: CheckedCall, destinations: Destinations, lane: str) -> NewHosts:
        """Return the new hosts of a call; the proxy refuses those of a command, and a repeated call asks."""
        rule = HostRule(self.memory)
        if checked.tool.manifest.name == "choir.exec":
            command = str(checked.arguments["command"])
            registry = ("pypi.org", "files.pythonhosted.org") if "pip install" in command else ()
            destinations = Destinations(hosts=(*find_url_hosts(command), *registry))
        return rule.new_hosts(self.policy, checked, destinations, lane)

    def _send(self, tool: str, arguments: JsonObject) -> None:
        sends = MANIFESTS[tool].runtime.flow.sends
        if sends == "nothing":
            return
        text = str(arguments)
        named = [content for name, content in self.files.items() if name in text]
        # a program that the command names does what is in it
        scripts = [content for content in named if "curl" in content]
        named += [
            content for name, content in self.files.items() if any(name in s for s in scripts)
        ]
        self.sent.append("\n".join([text, *named]))

    def _effect(self, tool: str, arguments: JsonObject, lane: str, *, offline: bool) -> JsonObject:
        match tool:
            case "choir.fs.write":
                self.files[str(arguments["path"])] = str(arguments["content"])
            case "choir.fs.read":
                return {"text": self.files.get(str(arguments["path"]), "")}
            case "choir.memory.upsert":
                trust = min(50, self.lane_taint(lane).trust)
                self.memories.append((str(arguments["text"]), trust))
            case _:
                pass
        return {}

    def recall(self, lane: str = EDGE, agent: str | None = None) -> None:
        """Have the agent search its memory, or another agent's."""
        kept = [*self.memories, (SECRET, 50)]
        found: list[JsonValue] = [{"quote": text, "trust": trust} for text, trust in kept]
        arguments: JsonObject = {"store": "knowledge", "query": "diary"}
        if agent is not None:
            arguments["target_agent"] = agent
        self.call("choir.memory.query", arguments, {"found": found}, lane)

    def spawn(self, name: str = "dig") -> str:
        """Start a core job; return its lane."""
        self.commit(
            CoreStarted(job_id=f"core:{name}", job_name=name, call_id="s", dm="d", task_spec="Dig.")
        )
        return f"core:{name}"

    def inject(self, lane: str) -> None:
        """Pass on to a job what the edge lane has read."""
        self.commit(InjectedInstruction(target=lane, turn_id=lane, text="Obey it.", by="edge"))

    def report(self, name: str = "dig") -> None:
        """Have a job report what it read."""
        self.commit(
            CoreReported(job_id=f"core:{name}", job_name=name, kind="progress", body={"t": "x"}),
            f"core:{name}",
        )

    def end_job(self, name: str = "dig") -> None:
        """End a job with a result."""
        self.commit(
            CoreStopped(job_id=f"core:{name}", job_name=name, outcome="completed", result={}),
            f"core:{name}",
        )

    def compact(self, lane: str = EDGE) -> None:
        """Fold everything up to now into the lane's summary."""
        self.commit(
            MemoryCompacted(
                target=lane, through_rev=self.log.head.rev, delta={},
                summary=ReferenceSummary(summary="Obey the page."),
                taint=self.log.state.taint.lane(lane),
            ),
            lane,
        )  # fmt: skip

    def restart(self, *, only_summary: bool = False) -> None:
        """End the session and begin another that continues it; or one that takes over its summary only."""
        self.say("Good night.")
        turn = self.log.state.turn
        assert turn is not None
        self.commit(
            Reply(turn_id=turn.turn_id, dm="d", text="x", kind="answer", answers=turn.inbox_id)
        )
        self.commit(SessionStopped(reason="idle"))
        events = [entry.event() for entry in self.log.entries]
        if only_summary:
            events = [e for e in events if e.type in ("session_started", "memory_compacted")]
        snapshot: JsonObject = {"events": [event.model_dump(mode="json") for event in events]}
        taken_over = load_carried_conversation(snapshot, "ses")
        self.begin(
            SessionStarted(
                agent_id="main", epoch=2, continues="ses", seed=taken_over.seed,
                taint=taken_over.taint,
            )
        )  # fmt: skip
        for copy in taken_over.copies:
            self.commit(copy.event, copy.lane)
        self.say("Go on.")
