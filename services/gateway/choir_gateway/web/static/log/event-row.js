/* A row of the timeline: one line, and all of its content when it is opened. */
import {html, useEffect, useState} from "../app/html.js";
import {formatSize, t} from "../app/texts.js";
import {formatDateTime, formatDuration, formatNumber} from "../cockpit/formats.js";
import {Badge, Details, showInvisible, Source} from "../cockpit/kit.js";
import {Cost, formatClock, Jump} from "./marks.js";
import {costOf, waitOf} from "./timeline.js";

const STATUS = {success: "good", error: "bad", refused: "bad", interrupted: "warning", running: "busy"};

export function EventRow({id, row, costs, isTarget}) {
  const [isOpen, setOpen] = useState(isTarget);
  useEffect(() => { if (isTarget) setOpen(true); }, [isTarget]);
  const isCall = row.kind === "call";
  const payload = row.events[0].payload;
  const duration = isCall ? row.durationMs : payload.duration_ms;
  const cost = costOf(row, costs);
  return html`<li class="log-row" id=${`rev-${row.rev}`} data-kind=${row.kind} data-target=${isTarget}>
    <button class="log-row-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <time>${formatClock(row.at)}</time>
      <span class="log-title">${isCall ? row.tool : t(`log.event.${row.type}`)}</span>
      <span class="log-text" dir="auto">${showInvisible(row.text)}</span>
      <span class="log-numbers">
        ${isCall && html`<${Badge} kind=${STATUS[row.status]}>${t(`log.call.${row.status}`)}<//>`}
        ${row.locks?.length > 0 && html`<span>${t("log.locks.count", {count: row.locks.length})}</span>`}
        ${duration > 0 && html`<span>${formatDuration(duration)}</span>`}
        <${Cost} cost=${cost} /></span>
    </button>
    ${isOpen && html`<div class="log-row-body">
      ${isCall ? html`<${CallDetails} row=${row} />` : html`<${ModelDetails} payload=${payload} row=${row} />`}
      <p class="log-links">${row.cause && html`<${Jump} id=${id} link=${row.cause} text=${t("log.cause")} />`}
        ${row.effects.map((it) => html`<${Jump} key=${it.place ?? it.rev} id=${id} link=${it} />`)}</p>
      ${isCall ? html`<${Block} title=${t("log.input")} value=${row.input} />
        ${row.output !== undefined && html`<${Block} title=${t("log.result")} value=${row.output} />`}
        <${Stored} row=${row} />`
      : html`${mainText(payload) && html`<${Block} title=${t("log.text")} value=${mainText(payload)} />`}<${Stored} row=${row} />`}
    </div>`}
  </li>`;
}

function mainText(payload) {
  return payload.text || payload.brief || payload.task_spec || "";
}

function Block({title, value}) {
  return html`<div class="log-block"><h4>${title}</h4><${Source} value=${value} label=${title} /></div>`;
}

/** The events as they are stored, with their hashes. */
function Stored({row}) {
  const [isOpen, setOpen] = useState(false);
  const title = t("log.stored", {revisions: row.events.map((event) => event.rev).join(", ")});
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>${title}</summary>
    ${isOpen && row.events.map((event) => html`<${Source} key=${event.rev} value=${event} label=${title} />`)}</details>`;
}

function CallDetails({row}) {
  const wait = waitOf(row);
  return html`<${Details} items=${[
    [t("log.requested"), formatDateTime(row.at)],
    [t("log.waited"), wait === null ? "" : formatDuration(wait)],
    [t("log.lasted"), row.output === undefined ? "" : formatDuration(row.durationMs)],
    [t("log.locks"), row.locks.length > 0 && html`<ul class="log-locks">${row.locks.map((lock) => html`<li key=${lock.resource}>
      <code>${showInvisible(lock.resource)}</code> ${t(lock.mode === "X" ? "log.lock.exclusive" : "log.lock.shared")}</li>`)}</ul>`],
    [t("log.approved"), row.isApproved && (row.grantId ? t("log.approved.grant", {id: row.grantId}) : t("log.approved.person"))],
    [t("log.hosts"), row.connections?.length > 0 && row.connections.map((it) => `${it.host}:${it.port} ${it.decision}, ${formatSize(it.bytes_up)} ↑ ${formatSize(it.bytes_down)} ↓`).join("; ")],
    [t("log.artifact"), row.artifact],
    [t("log.outside"), row.provenance?.outside?.map((it) => it.what).join("; ")],
  ].map(([name, value]) => [name, value || ""])} />`;
}

function ModelDetails({payload, row}) {
  return html`<${Details} items=${[
    [t("log.at"), formatDateTime(row.at)],
    [t("log.model"), payload.model],
    [t("log.finish"), payload.finish_reason],
    [t("log.tokens.prompt"), payload.prompt_tokens ? formatNumber(payload.prompt_tokens) : ""],
    [t("log.tokens.cached"), payload.cached_tokens ? formatNumber(payload.cached_tokens) : ""],
    [t("log.tokens.output"), payload.completion_tokens ? formatNumber(payload.completion_tokens) : ""],
    [t("log.approval"), payload.approval_id],
  ]} />`;
}
