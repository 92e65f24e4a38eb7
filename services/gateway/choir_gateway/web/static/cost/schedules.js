/* Schedules with their newest runs. */
import {get} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatAgo, formatDateTime, formatDuration} from "../cockpit/formats.js";
import {ActionButton, Badge, Empty, showInvisible, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";

const LOADED_AT_ONCE = 8; // schedules whose runs are loaded with the page; others when they are opened
const STATES = {active: "good", paused: "warning", ended: "plain"};
const RUNS = {due: "busy", running: "busy", done: "good", failed: "bad", missed: "warning", skipped: "plain", paused: "warning"};

export function Schedules() {
  const [later, setLater] = useState([]);
  const first = useResource("v1/schedules?limit=50");
  const pages = [first.data, ...later].filter(Boolean);
  const schedules = pages.flatMap((page) => page.items);
  const next = pages.at(-1)?.next;
  async function loadMore() {
    const page = await get(`v1/schedules?limit=50&cursor=${next}`);
    setLater([...later, page]);
  }
  return html`<${Waiting} resource=${first} />
    ${first.data && !schedules.length && html`<${Empty}>${t("cost.schedules.none")}<//>`}
    <div class="cards">${schedules.map((it, number) => html`<${ScheduleCard} key=${it.schedule_id} schedule=${it} isFirst=${number < LOADED_AT_ONCE} />`)}</div>
    ${next && html`<div class="log-more"><${ActionButton} action=${loadMore}>${t("cost.schedules.more")}<//></div>`}`;
}

function ScheduleCard({schedule, isFirst}) {
  const [isWanted, setWanted] = useState(isFirst);
  const shown = useResource(isWanted ? `v1/schedules/${schedule.schedule_id}` : null);
  const kinds = {remind: t("cost.schedule.remind"), prompt: t("cost.schedule.prompt"), job: t("cost.schedule.job"), skill: t("cost.schedule.skill")};
  const states = {active: t("cost.schedule.active"), paused: t("cost.schedule.paused"), ended: t("cost.schedule.ended")};
  return html`<section class="panel"><h2 class="cost-schedule">${serverText(schedule.summary)} <${Badge} kind=${STATES[schedule.state]}>${states[schedule.state]}<//></h2>
    <p dir="auto">${showInvisible(schedule.text)}</p>
    <p class="detail">${schedule.schedule_id} · ${schedule.agent_id} · ${kinds[schedule.kind]} ${schedule.skill} · ${schedule.dm}</p>
    ${schedule.next_at && html`<p class="detail">${t("cost.schedule.next", {at: formatDateTime(schedule.next_at), ago: formatAgo(schedule.next_at)})}</p>`}
    ${schedule.note && html`<p class="problem">${serverText(schedule.note)}</p>`}
    ${schedule.failures > 0 && html`<p class="problem">${t("cost.schedule.failures", {count: schedule.failures, most: schedule.max_failures})}</p>`}
    ${isWanted ? html`<${Waiting} resource=${shown} />${shown.data && html`<${Runs} runs=${shown.data.runs} />`}`
      : html`<button onClick=${() => setWanted(true)}>${t("cost.schedule.runs")}</button>`}
  </section>`;
}

function Runs({runs}) {
  const words = {
    due: t("cost.run.due"), running: t("cost.run.running"), done: t("cost.run.done"), failed: t("cost.run.failed"),
    missed: t("cost.run.missed"), skipped: t("cost.run.skipped"), paused: t("cost.run.paused"),
  };
  if (!runs.length) return html`<p class="detail">${t("cost.runs.none")}</p>`;
  return html`<ul class="cost-list" aria-label=${t("cost.schedule.runs")}>${runs.slice(0, 5).map((run) => html`<li key=${run.run_id}>
    <${Badge} kind=${RUNS[run.state]}>${words[run.state]}<//><time title=${formatDateTime(run.due_at)}>${formatAgo(run.due_at)}</time>
    ${run.started_at && run.ended_at && html`<span class="detail">${formatDuration(new Date(run.ended_at) - new Date(run.started_at))}</span>`}
    ${run.manual && html`<span class="detail">${t("cost.run.manual")}</span>`}
    ${run.detail && html`<span class="detail">${serverText(run.detail)}</span>`}</li>`)}</ul>`;
}
