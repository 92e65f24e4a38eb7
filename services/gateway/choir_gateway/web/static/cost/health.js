/* Services, queues, workspaces and models. */
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatAgo, formatNumber} from "../cockpit/formats.js";
import {Badge, DataTable, Empty, Section, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";

const AGENT_STATES = {running: "good", starting: "busy", stopping: "busy", stopped: "plain", crashed: "bad"};

export function Health() {
  const status = useResource("v1/status", {everyMs: IDLE_MS});
  const models = useResource("v1/models");
  return html`<${Waiting} resource=${status} />
    ${status.data && html`<${Services} status=${status.data} /><${Queues} status=${status.data} />`}
    <${Section} title=${t("cost.models")}>
      <${Waiting} resource=${models} />
      ${models.data && (models.data.items.length ? html`<${Models} models=${models.data.items} agents=${status.data?.agents ?? []} />`
        : html`<${Empty}>${t("cost.models.none")}<//>`)}
    <//>`;
}

function Services({status}) {
  return html`<${Section} title=${t("cost.services")} detail=${`Choir ${status.version}`}
      actions=${html`<${Badge} kind=${status.ready ? "good" : "bad"}>${t(status.ready ? "cost.ready" : "cost.not_ready")}<//>`}>
    <ul class="panel cost-list">${status.parts.map((part) => html`<li key=${part.name}>
      <${Badge} kind=${part.ok ? "good" : "bad"}>${t(part.ok ? "cost.up" : "cost.down")}<//><b>${part.name}</b>
      <span class="detail">${part.detail || (part.ok ? "" : t("cost.no_answer"))}</span></li>`)}</ul>
    ${!status.ready && html`<p class="detail">${t("cost.down.advice")}</p>`}
    ${status.full_workspaces.length > 0 && html`<ul class="panel cost-list">${status.full_workspaces.map((text) => html`<li key=${text}>
      <${Badge} kind="warning">${t("cost.workspace.full")}<//><span>${text}</span></li>`)}</ul>`}
  <//>`;
}

function Queues({status}) {
  return html`<${Section} title=${t("cost.queues")}>
    ${status.agents.length === 0 ? html`<${Empty}>${t("cost.agents.none")}<//>` : html`<${DataTable} label=${t("cost.queues")} rows=${status.agents} rowKey=${(it) => it.agent_id} columns=${[
      {key: "agent_id", title: t("cost.agent")},
      {key: "state", title: t("cost.state"), render: (it) => html`<${Badge} kind=${it.suspect ? "warning" : AGENT_STATES[it.state]}>${it.suspect ? t("cost.suspect") : t(`now.agent.${it.state}`)}<//>`},
      {key: "queue", title: t("cost.queued"), align: "end", render: (it) => formatNumber(it.queued_messages)},
      {key: "jobs", title: t("cost.jobs"), align: "end", render: (it) => formatNumber(it.lanes.filter((lane) => lane.lane.startsWith("core:")).length)},
      {key: "beat", title: t("cost.heartbeat"), render: (it) => it.last_heartbeat_at && formatAgo(it.last_heartbeat_at)},
    ]} />`}
  <//>`;
}

function Models({models, agents}) {
  const lanes = agents.flatMap((agent) => agent.lanes);
  const failures = new Map(lanes.filter((lane) => lane.model_failure).map((lane) => [lane.model_failure.model, lane.model_failure]));
  const users = (name) => agents.filter((agent) => agent.lanes.some((lane) => lane.model?.name === name)).map((agent) => agent.agent_id).join(", ");
  const failureOf = (it) => failures.get(it.name) ?? failures.get(it.model);
  const kinds = {llm: t("cost.kind.llm"), tts: t("cost.kind.tts"), transcription: t("cost.kind.transcription")};
  return html`<${DataTable} label=${t("cost.models")} rows=${models} rowKey=${(it) => `${it.kind} ${it.name}`} columns=${[
    {key: "name", title: t("cost.name")},
    {key: "kind", title: t("cost.kind"), render: (it) => kinds[it.kind]},
    {key: "model", title: t("cost.model")},
    {key: "provider", title: t("cost.provider"), render: (it) => html`<span class="cost-name">${it.provider}<br /><small class="detail">${it.endpoint}</small></span>`},
    {key: "context", title: t("cost.context"), align: "end", render: (it) => it.context_window && formatNumber(it.context_window)},
    {key: "users", title: t("cost.used_by"), render: (it) => users(it.name)},
    {key: "state", title: t("cost.state"), render: (it) => {
      const failure = failureOf(it);
      if (failure) return html`<${Badge} kind="bad">${t("cost.failing", {since: formatAgo(failure.since)})}<//><p>${serverText(failure.words)}</p>`;
      return users(it.name) ? html`<${Badge} kind="good">${t("cost.no_failure")}<//>` : html`<${Badge}>${t("cost.unused")}<//>`;
    }},
  ]} />`;
}
