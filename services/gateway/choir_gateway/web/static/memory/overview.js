/* How much an agent remembers, whether it remembers and reads now, who did what, and the export. */
import {download} from "../app/api.js";
import {html} from "../app/html.js";
import {formatSize, t} from "../app/texts.js";
import {formatDateTime, formatNumber} from "../cockpit/formats.js";
import {ActionButton, Badge, DataTable, Empty, Section, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {AuditLog} from "./audit.js";
import {named} from "./labels.js";
import {ModeSwitch} from "./mode.js";
import {Count, SessionLink, When, Words} from "./parts.js";
import {agentPath} from "./paths.js";

export function OverviewTab({agent}) {
  const state = useResource(agentPath(agent, "memory"));
  const exported = () => download(agentPath(agent, "memory", "export"), `${agent}-memory.jsonl`);
  return html`<${ModeSwitch} agent=${agent} />
    <${Section} title=${t("memory.size")} actions=${html`<${ActionButton} action=${exported}>${t("memory.export")}<//>`}>
      <${Waiting} resource=${state} />${state.data && html`<${Size} state=${state.data} />`}<//>
    <${Feedback} agent=${agent} />
    <${AuditLog} agent=${agent} />`;
}

function Size({state}) {
  const total = (store) => state.counts.filter((it) => it.store === store).reduce((sum, it) => sum + it.documents, 0);
  return html`<div class="cards memory-counts">
      <${Count} value=${total("session")} label=${t("memory.store.session")} /><${Count} value=${total("knowledge")} label=${t("memory.store.knowledge")} />
      <${Count} value=${state.queued} label=${t("memory.queued")} />
      <div class="panel"><span class="number">${formatSize(state.bytes)}</span><span class="detail">${t("memory.bytes")}</span></div></div>
    ${state.unfinished_imports.map((it) => html`<p class="problem" key=${it.import_id}>${t("memory.import.unfinished", {done: formatNumber(it.done), total: formatNumber(it.total)})}</p>`)}
    ${state.counts.length === 0 ? html`<${Empty}>${t("memory.empty")}<//>`
      : html`<${DataTable} label=${t("memory.size")} rows=${state.counts} rowKey=${(it) => `${it.store} ${it.tier} ${it.kind}`} columns=${[
        {key: "store", title: t("memory.search.store"), render: (it) => named("store", it.store)},
        {key: "kind", title: t("memory.forget.kind"), render: (it) => html`${named("kind", it.kind)}${it.tier && html` <span class="detail">${named("tier", it.tier)}</span>`}`},
        {key: "documents", title: t("memory.documents"), align: "end", render: (it) => formatNumber(it.documents)},
        {key: "without", title: t("memory.without_vector"), align: "end", render: (it) => formatNumber(it.without_vector)},
      ]} />`}`;
}

/** What users said about the agent's conduct: never part of a prompt. */
function Feedback({agent}) {
  const feedback = useResource(agentPath(agent, "memory", "feedback"));
  return html`<${Section} title=${t("memory.feedback")} detail=${t("memory.feedback.about")}>
    <${Waiting} resource=${feedback} />
    ${feedback.data && (feedback.data.items.length === 0 ? html`<${Empty}>${t("memory.feedback.none")}<//>`
      : html`<ul class="memory-list">${feedback.data.items.map((it) => html`<li class="panel memory-item" key=${it.document_id + it.at}>
        <div class="memory-line"><${Badge} kind=${it.label === "positive" ? "good" : "bad"}>${named("feedback", it.label)}<//>
          <span class="detail" title=${formatDateTime(it.at)}><${When} at=${it.at} /></span><${SessionLink} session=${it.session_id} /></div>
        <${Words} text=${it.text} /></li>`)}</ul>`)}<//>`;
}
