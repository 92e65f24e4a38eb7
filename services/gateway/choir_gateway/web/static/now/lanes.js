/* The lanes of an agent as they are shown: the conversations first, then its core jobs. Pure. */
import {currentCall} from "./activity.js";

const CORE = "core:";
const EDGE = "edge:";
const IDLE = "EDGE_IDLE";
const ENDED = ["CORE_COMPLETED", "CORE_TERMINATED"];
// How each state is called on the page, and the kind of its badge.
const STATES = {
  EDGE_IDLE: ["idle", "plain"], EDGE_CONTEXT_READY: ["thinking", "busy"], EDGE_REASONING: ["thinking", "busy"],
  EDGE_WAITING_TOOL: ["tool", "busy"], EDGE_FINALIZING: ["answering", "busy"], EDGE_TERMINATED: ["ended", "plain"],
  CORE_IDLE: ["starting", "busy"], CORE_CREATED: ["starting", "busy"], CORE_INITIALIZING: ["starting", "busy"],
  CORE_REASONING: ["thinking", "busy"], CORE_WAITING_TOOL: ["tool", "busy"],
  CORE_COMPLETED: ["completed", "good"], CORE_TERMINATED: ["ended", "plain"],
};
const STATES_OF_AGENTS = {running: "good", starting: "busy", crashed: "bad", stopped: "plain", unbound: "warning"};

export function agentStateKind(agent) {
  return agent.suspect ? "warning" : STATES_OF_AGENTS[agent.state] ?? "plain";
}

/** How a state of a lane is called on the page. */
export function stateName(state) {
  return (STATES[state] ?? ["other"])[0];
}

export function isBusy(agent) {
  return agent.lanes.some((lane) => lane.state !== IDLE && !ENDED.includes(lane.state) && lane.state !== "EDGE_TERMINATED");
}

/** Return the lanes of an agent with what its events tell; `pending` are requests that wait for a decision. */
export function lanesOf(agent, activity, pending) {
  const own = pending.filter((it) => it.session_id === agent.session_id);
  const order = (lane) => (lane.lane.startsWith(CORE) ? 1 : 0);
  return [...agent.lanes].sort((one, other) => order(one) - order(other) || one.lane.localeCompare(other.lane))
    .map((lane) => describe(agent, lane, activity, own));
}

function describe(agent, report, activity, pending) {
  const isJob = report.lane.startsWith(CORE);
  const name = isJob ? report.lane.slice(CORE.length) : report.lane.startsWith(EDGE) ? report.lane.slice(EDGE.length) : agent.bindings?.dm ?? "";
  const known = activity?.lanes.get(report.lane);
  const job = isJob ? activity?.jobs.get(name) : undefined;
  const isEnded = ENDED.includes(report.state) || Boolean(job?.outcome);
  const isIdle = report.state === IDLE || report.state === "EDGE_TERMINATED";
  const call = isIdle || isEnded ? undefined : currentCall(known);
  // once a call runs, what the last report said of its waiting is over
  const waits = call && !call.isRunning ? report.lock_waits : [];
  const asked = call && !call.isRunning && waits.length === 0
    ? pending.find((it) => it.request_type === "call" && it.payload.tool === call.tool) : undefined;
  const [state, kind] = stateOf(report, job, {waits, asked});
  return {
    lane: report.lane, name, isJob, isIdle, isEnded, report, job, call, waits, asked, state, kind,
    since: job?.startedAt ?? (isIdle ? null : known?.since ?? null),
  };
}

function stateOf(report, job, {waits, asked}) {
  if (job?.outcome) return [job.outcome, job.outcome === "completed" ? "good" : job.outcome === "cancelled" ? "plain" : "bad"];
  if (report.model_failure) return ["failing", "bad"];
  if (waits.length) return ["locked", "warning"];
  if (asked) return ["asking", "warning"];
  return STATES[report.state] ?? ["other", "plain"];
}

/** What is left of each budget that is worth a line; the time is counted down from when it was reported. */
export function budgetsLeft(report, reportedAt, now) {
  const {per_job_wall_time_ms: wall, ...counts} = report.budget_remaining;
  return {time: wall === undefined ? null : Math.max(0, wall - (now - reportedAt)), counts};
}

/** The cost lines of a session: `{conversations, jobs: {id: line}, total}`. */
export function costsOf(report) {
  if (!report) return null;
  const jobs = Object.fromEntries(report.lines.filter((it) => it.group).map((it) => [it.group, it]));
  return {conversations: report.lines.find((it) => !it.group), jobs, total: report.total};
}
