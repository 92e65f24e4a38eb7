/* Now: every agent with its conversations and core jobs, live. */
import {html} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {pending} from "../approvals/requests.js";
import {formatAgo, formatMoney, formatNumber} from "../cockpit/formats.js";
import {Badge, Empty, PageFrame, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {LaneCard} from "./lane-card.js";
import {agentStateKind, costsOf, isBusy, lanesOf} from "./lanes.js";
import {useClock, useLiveAgents} from "./live.js";

export function Page() {
  const live = useLiveAgents();
  const agents = live.resource.data?.items;
  const busy = (agents ?? []).filter(isBusy).length;
  const now = useClock(busy > 0);
  return html`<${PageFrame} title=${t("page.now")} detail=${agents && t("now.busy", {busy, count: agents.length})}>
    <${Waiting} resource=${live.resource} />
    ${agents?.length === 0 && html`<${Empty}>${t("now.none")}</${Empty}>`}
    ${pending.value.length > 0 && html`<a class="banner" href=${addressOf("approvals")}>${
      t(pending.value.length === 1 ? "now.pending.one" : "now.pending", {count: pending.value.length})}</a>`}
    ${agents?.map((agent) => html`<${AgentSection} key=${agent.agent_id} agent=${agent} live=${live} now=${now} />`)}
  </${PageFrame}>`;
}

function AgentSection({agent, live, now}) {
  const lanes = lanesOf(agent, live.activityOf(agent), pending.value);
  const costs = costsOf(live.costOf(agent));
  const title = html`${agent.agent_id} <${Badge} kind=${agentStateKind(agent)}>${
    t(agent.suspect ? "now.agent.suspect" : `now.agent.${agent.state}`)}</${Badge}>`;
  return html`<${Section} title=${title} detail=${headline(agent, costs)}>
    ${agent.conversation_faults.map((fault) => html`<p class="problem" key=${fault}>${showInvisible(serverText(fault))}</p>`)}
    ${agent.queued_messages > 0 && html`<p class="detail">${
      t(agent.queued_messages === 1 ? "now.queued.one" : "now.queued", {count: agent.queued_messages})}</p>`}
    ${lanes.length === 0 ? html`<p class="panel detail">${restingText(agent)}</p>` : html`<div class="cards lanes">${
      lanes.map((lane) => html`<${LaneCard} key=${lane.lane} agent=${agent} lane=${lane} costs=${costs} now=${now}
        reportedAt=${live.reportedAt(agent, lane.lane)} />`)}</div>`}
  </${Section}>`;
}

function headline(agent, costs) {
  const parts = [agent.model];
  if (agent.started_at) parts.push(t("now.started", {ago: formatAgo(agent.started_at)}));
  if (costs) {
    const {prompt_tokens: prompt, completion_tokens: completion, cost_usd: usd, unknown_calls: unknown} = costs.total;
    if (prompt + completion > 0) parts.push(t("now.tokens", {count: formatNumber(prompt + completion)}));
    if (Number(usd) > 0 || (prompt + completion > 0 && !unknown)) parts.push(formatMoney(usd));
  }
  return parts.filter(Boolean).join(" · ");
}

/** Why an agent has no lanes, and what to do about it. */
function restingText(agent) {
  if (agent.state === "running" || agent.state === "starting") return t("now.resting.fresh");
  return t(agent.state === "crashed" ? "now.resting.crashed" : "now.resting.stopped", {agent: agent.agent_id});
}
