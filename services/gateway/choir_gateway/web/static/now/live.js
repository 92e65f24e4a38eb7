/* What the agents do now: fetched when an event came, at most once a second, and rarely while nothing happens. */
import {get} from "../app/api.js";
import {useEffect, useRef, useState} from "../app/html.js";
import {refreshRequests} from "../approvals/requests.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {useOncePerSecond, useSessionStreams} from "../cockpit/streams.js";
import {newActivity, takeEvent} from "./activity.js";

const BACKLOG = 500; // events: enough to know the task and the last report of most jobs
const SPENDING_EVENTS = ["model_output", "memory_compacted", "core_stopped", "reply"];
const SPENDING_MS = 5_000;
const SETTLED_MS = 2_500; // agents report their lanes up to a second after the event

/** Return `{resource, activityOf, costOf, reportedAt}` of all agents. */
export function useLiveAgents() {
  const resource = useResource("v1/agents", {everyMs: 2 * IDLE_MS});
  const agents = resource.data?.items ?? [];
  const sessions = agents.map((it) => it.session_id).filter(Boolean);
  const activities = useRef(new Map()).current;
  const reportTimes = useRef(new Map()).current;
  const [, redraw] = useState(0);
  const [costs, spendingChanged] = useCosts(sessions);

  const reloadSoon = useOncePerSecond(() => {
    redraw((count) => count + 1);
    resource.reload();
  });
  const settled = useRef(0);
  useEffect(() => () => clearTimeout(settled.current), []);
  const lookForRequests = useOncePerSecond(refreshRequests);
  useSessionStreams(sessions, (id, type, event) => {
    if (!activities.has(id)) activities.set(id, newActivity());
    takeEvent(activities.get(id), type, event);
    reloadSoon();
    clearTimeout(settled.current);
    settled.current = setTimeout(resource.reload, SETTLED_MS);
    if (type === "tool_call_requested" || type === "approval_decided") lookForRequests();
    if (SPENDING_EVENTS.includes(type)) spendingChanged(id);
  }, {backlog: BACKLOG});

  noteReportTimes(agents, activities, reportTimes);
  return {
    resource,
    activityOf: (agent) => activities.get(agent.session_id),
    costOf: (agent) => costs.get(agent.session_id),
    reportedAt: (agent, lane) => reportTimes.get(`${agent.session_id} ${lane}`)?.at ?? Date.now(),
  };
}

/** Remember when the time that is left of a job was reported: only then was it exact. */
function noteReportTimes(agents, activities, times) {
  for (const agent of agents) {
    for (const lane of agent.lanes) {
      const key = `${agent.session_id} ${lane.lane}`;
      const left = lane.budget_remaining.per_job_wall_time_ms;
      if (left !== undefined && times.get(key)?.left !== left) times.set(key, {left, at: Date.now()});
    }
  }
}

/** The cost report of each session by job, fetched at first and some seconds after something was spent. */
function useCosts(sessions) {
  const [costs, setCosts] = useState(new Map());
  const changed = useRef(new Set()).current;
  const timer = useRef(0);

  async function load(ids) {
    for (const id of ids) {
      try {
        const report = await get(`v1/cost?by=job&session=${encodeURIComponent(id)}`);
        setCosts((old) => new Map(old).set(id, report));
      } catch {
        // the agents themselves are shown without it
      }
    }
  }

  function spendingChanged(id) {
    changed.add(id);
    if (timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = 0;
      load([...changed]);
      changed.clear();
    }, SPENDING_MS);
  }

  useEffect(() => { load(sessions); }, [sessions.join(" ")]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return [costs, spendingChanged];
}

/** The current time, each second while `isRunning`. */
export function useClock(isRunning) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    if (!isRunning) return undefined;
    const timer = setInterval(() => { if (!document.hidden) setNow(Date.now()); }, 1_000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}
