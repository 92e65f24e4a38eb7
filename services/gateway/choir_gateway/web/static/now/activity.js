/* What the lanes of a session do, folded from its events. Pure. */

const REPORT_FIELDS = ["summary", "missing", "text"]; // that the model chooses for the text of a report
const MAX_LANES = 200;
const MAX_CALLS = 50;

/** Return the activity of a session before its first event. */
export function newActivity() {
  return {lanes: new Map(), jobs: new Map(), rev: 0};
}

/** Take an event into the activity; events that came before, again after a reconnect, change nothing. */
export function takeEvent(activity, type, event) {
  if (!event || event.rev <= activity.rev) return;
  activity.rev = event.rev;
  const payload = event.payload ?? {};
  switch (type) {
    case "user_msg":
    case "report_begun":
      Object.assign(laneOf(activity, event.lane), {since: event.at, calls: new Map()});
      break;
    case "tool_call_requested":
      addCall(laneOf(activity, event.lane), payload, event.at);
      break;
    case "tool_call_committed": {
      const call = laneOf(activity, event.lane).calls.get(payload.call_id);
      if (call) Object.assign(call, {isRunning: true, since: event.at, locks: payload.locks ?? []});
      break;
    }
    case "tool_result_committed":
      laneOf(activity, event.lane).calls.delete(payload.call_id);
      break;
    case "reply":
      if (!["notice", "message"].includes(payload.kind)) endTurn(activity, event.lane);
      break;
    case "cancelled":
      endTurn(activity, payload.target);
      break;
    case "core_started":
      startJob(activity, payload, event.at);
      break;
    case "core_reported":
      Object.assign(jobOf(activity, payload), {report: reportText(payload), reportKind: payload.kind, reportedAt: event.at});
      break;
    case "core_stopped":
      Object.assign(jobOf(activity, payload), {
        outcome: payload.outcome, reason: payload.reason ?? "", durationMs: payload.duration_ms ?? 0, tokens: payload.tokens ?? 0,
      });
      activity.lanes.delete(`core:${payload.job_name}`);
      break;
    default:
  }
  limit(activity.lanes, MAX_LANES);
  limit(activity.jobs, MAX_LANES);
}

function laneOf(activity, lane) {
  if (!activity.lanes.has(lane)) activity.lanes.set(lane, {since: null, calls: new Map()});
  return activity.lanes.get(lane);
}

function addCall(lane, payload, at) {
  lane.calls.set(payload.call_id, {id: payload.call_id, tool: String(payload.tool), since: at, isRunning: false, locks: []});
  limit(lane.calls, MAX_CALLS);
}

function endTurn(activity, lane) {
  const known = activity.lanes.get(lane);
  if (known) Object.assign(known, {since: null, calls: new Map()});
}

function startJob(activity, payload, at) {
  activity.jobs.set(payload.job_name, {
    id: payload.job_id, dm: payload.dm, task: String(payload.task_spec ?? ""), startedAt: at, report: "", outcome: null,
  });
  activity.lanes.set(`core:${payload.job_name}`, {since: at, calls: new Map()});
}

function jobOf(activity, payload) {
  if (!activity.jobs.has(payload.job_name)) {
    activity.jobs.set(payload.job_name, {id: payload.job_id, task: "", startedAt: null, report: "", outcome: null});
  }
  return activity.jobs.get(payload.job_name);
}

function reportText(payload) {
  const body = payload.body ?? {};
  const field = REPORT_FIELDS.find((name) => body[name]);
  return field ? String(body[field]) : Object.entries(body).map(([name, value]) => `${name}: ${value}`).join(", ");
}

function limit(map, most) {
  while (map.size > most) map.delete(map.keys().next().value);
}

/** The newest call of a lane that is not finished, or undefined. */
export function currentCall(lane) {
  return lane ? [...lane.calls.values()].at(-1) : undefined;
}
