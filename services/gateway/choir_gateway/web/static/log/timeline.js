/* The timeline of a session, folded from its events: groups (turns, core jobs, and what the session itself did), each
   with its rows (model calls, tool calls, messages and everything else). Pure: no elements, no requests.

   A group: `{key, kind, lane, name, text, rows, firstRev, lastRev, start, end, isOpen, outcome, cause, effects}`.
   A row: `{rev, kind, lane, at, end, events, title, text, tool, status, …}`; `events` are the events it is made of.
   Causes and effects are `{kind, rev, name}`: `rev` is the event to jump to. Those in the log of another agent are
   `{kind, session, place, name}`: `place` is the id of the call or of the question there. */

const OPENERS = new Set(["user_msg", "report_begun", "core_started"]);
const ASK_TOOL = "choir.agent.ask";
const ROW_KINDS = {
  user_msg: "message", reply: "message", report_begun: "message", injected_instruction: "message", cancelled: "message",
  model_output: "model", usage_recorded: "model", picture_described: "model", memory_compacted: "model",
  core_started: "job", core_reported: "job", core_stopped: "job",
  approval_decided: "approval",
  skill_started: "skill", skill_transitioned: "skill", skill_stopped: "skill",
  memory_write_committed: "memory", reminded: "memory", attachments_read: "memory",
  budget_exhausted: "budget", budget_granted: "budget",
};

/** The kinds of rows, in the order of the filter. */
export const KINDS = ["message", "model", "call", "job", "approval", "skill", "memory", "budget", "session"];

export class Timeline {
  constructor() {
    this.groups = []; // in order of their first event
    this.byRev = new Map(); // revision -> {group, row}
    this.turns = new Map(); // turn or job id -> group
    this.calls = new Map(); // call id -> row
    this.questions = new Map(); // id of another agent's question -> revision of its message
    this.lanes = new Set();
    this.tools = new Set();
    this.proposals = new Map(); // approval id -> row of the call that asked
    this.pending = new Map(); // call id -> model call that proposed it
    this.last = null; // the group of the session's own events, while nothing else happened
  }

  /** Add events in order of revision. */
  addAll(events) {
    for (const event of events) this.add(event);
  }

  add(event) {
    const payload = event.payload;
    const group = this.groupOf(event, payload);
    const row = this.rowOf(event, payload, group);
    row.end = event.at;
    group.lastRev = event.rev;
    group.end = event.at;
    this.byRev.set(event.rev, {group, row});
    this.lanes.add(group.lane);
    this.link(event, payload, group, row);
  }

  /** The revision of a call or of a question by its id; undefined if it is not loaded. */
  revisionOf(place) {
    return this.calls.get(place)?.rev ?? this.questions.get(place);
  }

  groupOf(event, payload) {
    // the reply or the report of a job belongs to the job; its turn id is the job's id
    const id = payload.turn_id ?? payload.job_id ?? null;
    if (id === null) {
      this.last ??= this.open(event, {key: `session-${event.rev}`, kind: "session"});
      return this.last;
    }
    const known = this.turns.get(id);
    if (known) return known;
    this.last = null;
    const group = this.open(event, {key: id, ...(OPENERS.has(event.type) ? opening(event, payload) : {kind: "turn"})});
    this.turns.set(id, group);
    return group;
  }

  open(event, fields) {
    const group = {
      lane: event.lane, name: "", text: "", rows: [], firstRev: event.rev, lastRev: event.rev, start: event.at,
      end: event.at, isOpen: fields.kind !== "session", outcome: "", cause: null, effects: [], ...fields,
    };
    this.groups.push(group);
    return group;
  }

  rowOf(event, payload, group) {
    if (event.type === "tool_call_requested") return this.addRow(group, event, call(payload), payload.call_id);
    if (event.type === "tool_call_committed" || event.type === "tool_result_committed") {
      const row = this.calls.get(payload.call_id) ?? this.addRow(group, event, call(payload), payload.call_id);
      if (row.rev !== event.rev) row.events.push(event);
      return Object.assign(row, event.type === "tool_call_committed" ? committed(event, payload) : ended(event, payload));
    }
    return this.addRow(group, event, {kind: ROW_KINDS[event.type] ?? "session", text: textOf(event.type, payload)});
  }

  addRow(group, event, fields, callId) {
    const row = {rev: event.rev, type: event.type, lane: event.lane, at: event.at, events: [event], effects: [], cause: null, ...fields};
    group.rows.push(row);
    if (callId) {
      this.calls.set(callId, row);
      this.tools.add(row.tool);
      const model = this.pending.get(callId);
      if (model) row.cause = {kind: "model", rev: model.rev};
    }
    return row;
  }

  /** Record what caused an event and what it ended. */
  link(event, payload, group, row) {
    switch (event.type) {
      case "model_output":
        for (const it of payload.tool_calls ?? []) this.pending.set(it.call_id, row);
        break;
      case "user_msg":
        if (payload.wake_up?.question) {
          const asked = payload.wake_up.question;
          this.questions.set(asked.question_id, row.rev);
          group.cause = {kind: "asker", session: asked.session_id, place: asked.call_id, name: asked.agent};
        }
        break;
      case "core_started": {
        const by = this.calls.get(payload.call_id);
        connect(by, "call", {kind: "job", rev: row.rev, name: payload.job_name}, group);
        if (by) row.cause = group.cause;
        break;
      }
      case "report_begun": {
        const job = this.turns.get(payload.subject);
        const decision = this.proposals.get(payload.subject);
        if (job) {
          group.cause = {kind: "job", rev: job.firstRev, name: job.name};
          job.effects.push({kind: "report", rev: row.rev});
        } else if (decision) group.cause = {kind: "call", rev: decision.rev, name: decision.tool};
        break;
      }
      case "approval_decided": {
        const by = this.proposals.get(payload.approval_id);
        connect(by, "call", {kind: "approval", rev: row.rev, name: payload.status}, row);
        break;
      }
      case "tool_result_committed":
        if (typeof payload.output?.approval_id === "string") this.proposals.set(payload.output.approval_id, row);
        if (row.tool === ASK_TOOL && payload.output?.session_id && payload.output.question_id) {
          const {session_id: session, question_id: place, agent: name} = payload.output;
          row.effects.push({kind: "asked", session: String(session), place: String(place), name: String(name ?? "")});
        }
        break;
      case "reply":
        if (!["notice", "message"].includes(payload.kind) && group.kind !== "session") close(group, payload.kind === "error" ? "error" : "answered");
        break;
      case "core_stopped":
        close(group, payload.outcome);
        break;
      case "cancelled":
        if (group.kind !== "session") group.outcome = "cancelled";
        break;
      default:
    }
    // what else a call has done: memory writes, messages, instructions, reports and skills name their call
    if (payload.call_id && row.kind !== "call" && event.type !== "core_started") {
      connect(this.calls.get(payload.call_id), "call", {kind: row.kind, rev: row.rev, name: ""}, row);
    }
  }
}

function connect(by, kind, effect, target) {
  if (!by) return;
  by.effects.push(effect);
  target.cause = {kind, rev: by.rev, name: by.tool};
}

function close(group, outcome) {
  group.isOpen = false;
  group.outcome = outcome;
}

function opening(event, payload) {
  switch (event.type) {
    case "core_started": return {kind: "job", lane: `core:${payload.job_name}`, name: payload.job_name, text: payload.task_spec};
    case "report_begun": return {kind: "report", text: payload.brief};
    default: return {
      kind: payload.wake_up ? "wakeup" : "message", text: payload.text || (payload.attachments ?? []).map((it) => it.name).join(", "),
      name: payload.speaker?.name ?? payload.wake_up?.summary ?? "",
    };
  }
}

function call(payload) {
  return {
    kind: "call", callId: payload.call_id, tool: payload.tool, input: payload.input, output: undefined, status: "running",
    locks: [], text: shorten(JSON.stringify(payload.input ?? {})), durationMs: null, waitMs: null, isApproved: false,
  };
}

function committed(event, payload) {
  return {locks: payload.locks ?? [], isApproved: Boolean(payload.approved), grantId: payload.grant_id ?? null, committedAt: event.at};
}

function ended(event, payload) {
  return {
    status: payload.status, output: payload.output, durationMs: payload.duration_ms ?? 0, connections: payload.connections ?? [],
    artifact: payload.artifact_ref ?? null, provenance: payload.provenance ?? null, exposure: payload.exposure ?? "both",
  };
}

/** How long a call waited for locks or a decision before it ran, in milliseconds; null if it did not run. */
export function waitOf(row) {
  return row.committedAt ? Math.max(0, Date.parse(row.committedAt) - Date.parse(row.at)) : null;
}

const TEXT_FIELDS = ["text", "brief", "what", "task_spec", "summary", "reason", "failed", "purpose", "name", "skill", "budget", "model", "fallback", "event_type"];

function textOf(type, payload) {
  if (type === "core_reported") return shorten(payload.body?.text ?? payload.body?.message ?? JSON.stringify(payload.body));
  if (type === "core_stopped") return shorten(payload.reason || JSON.stringify(payload.result ?? {}));
  if (type === "core_started") return shorten(payload.task_spec);
  if (type === "reminded") return shorten((payload.reminders ?? []).map((it) => it.text ?? "").join(" · "));
  if (type === "skill_transitioned") return `${payload.skill}: ${payload.from_state} → ${payload.to_state}`;
  if (type === "memory_write_committed") return [payload.operation, payload.key ?? payload.document_id].filter(Boolean).join(" ");
  if (type === "memory_compacted") return shorten(payload.failed || (payload.summary?.summary ?? ""));
  for (const field of TEXT_FIELDS) if (typeof payload[field] === "string" && payload[field]) return shorten(payload[field]);
  return "";
}

export function shorten(text, longest = 300) {
  const flat = String(text ?? "").replace(/\s+/g, " ").trim();
  return flat.length > longest ? `${flat.slice(0, longest)}…` : flat;
}

/** Numbers of a group: its calls, tokens, duration and cost. `costs` are cost lines by revision. */
export function totalsOf(group, costs) {
  const totals = {calls: 0, failures: 0, tokens: 0, usd: 0, isPriced: false, unknown: 0, durationMs: Date.parse(group.end) - Date.parse(group.start)};
  for (const row of group.rows) {
    if (row.kind === "call") totals.calls += 1;
    if (row.status === "error" || row.status === "refused") totals.failures += 1;
    for (const event of row.events) {
      totals.tokens += (event.payload.prompt_tokens ?? 0) + (event.payload.completion_tokens ?? 0);
      addCost(totals, costs.get(String(event.rev)));
    }
  }
  return totals;
}

/** The cost of the events of a row, or null if nothing was charged for them. */
export function costOf(row, costs) {
  const total = {usd: 0, isPriced: false, unknown: 0};
  for (const event of row.events) addCost(total, costs.get(String(event.rev)));
  return total.isPriced || total.unknown ? total : null;
}

function addCost(total, line) {
  if (!line) return;
  total.usd += Number(line.cost_usd);
  total.unknown += line.unknown_calls;
  total.isPriced ||= line.calls > line.unknown_calls;
}
