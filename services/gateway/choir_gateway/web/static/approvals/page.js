/* Approvals: what agents ask for, the decision, and what became of it. */
import {html, useEffect} from "../app/html.js";
import {useResource} from "../cockpit/resource.js";
import {useOncePerSecond, useSessionStreams} from "../cockpit/streams.js";
import {ApprovalDetail} from "./detail.js";
import {ApprovalList} from "./list.js";
import {observeRequests, refreshRequests} from "./requests.js";

// Events after which a request may exist, or may have been decided.
const CHANGING_EVENTS = ["tool_call_requested", "tool_result_committed", "approval_decided"];

export function Page({parts}) {
  const agents = useResource("v1/agents");
  const sessions = (agents.data?.items ?? []).map((it) => it.session_id).filter(Boolean);
  const refreshSoon = useOncePerSecond(refreshRequests);
  useEffect(observeRequests, []);
  useSessionStreams(sessions, (_, type) => { if (CHANGING_EVENTS.includes(type)) refreshSoon(); });
  return parts[0] ? html`<${ApprovalDetail} key=${parts[0]} id=${parts[0]} />` : html`<${ApprovalList} />`;
}
