/* A turn or a core job as a card: what began it, how it ended, and its rows. */
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {formatDateTime, formatDuration, formatNumber} from "../cockpit/formats.js";
import {Badge, showInvisible} from "../cockpit/kit.js";
import {EventRow} from "./event-row.js";
import {Cost, formatClock, Jump} from "./marks.js";
import {shorten, totalsOf} from "./timeline.js";

const ROWS = 100; // shown at once
const OUTCOMES = {answered: "good", completed: "good", error: "bad", crashed: "bad", cancelled: "warning", budget_exceeded: "warning"};

export function GroupCard({id, group, rows, costs, isOpen, onToggle, highlight}) {
  const [more, setMore] = useState(ROWS);
  const totals = totalsOf(group, costs);
  const isAlone = group.kind === "session";
  const limit = Math.max(more, rows.findIndex((row) => row.rev === highlight) + 1);
  return html`<article class="panel log-group" data-kind=${group.kind}>
    <h3><button class="log-group-head" aria-expanded=${isOpen} onClick=${() => onToggle(!isOpen)}>
      <span class="log-what">${t(`log.group.${group.kind}`)}</span>
      <span class="log-text" dir="auto">${group.kind === "job" && html`<b>${showInvisible(group.name)}</b> `}${isAlone ? eventNames(group) : showInvisible(shorten(group.text))}</span>
    </button></h3>
    <p class="log-meta"><time title=${formatDateTime(group.start)}>${formatClock(group.start)}</time>
      <span class="log-lane-name">${group.lane}</span>
      ${group.name && group.kind !== "job" && html`<span>${showInvisible(group.name)}</span>`}
      ${!isAlone && html`<span>${formatDuration(totals.durationMs)}</span>`}
      ${totals.calls > 0 && html`<span>${t("log.calls", {count: formatNumber(totals.calls)})}</span>`}
      ${totals.tokens > 0 && html`<span>${t("log.tokens.count", {count: formatNumber(totals.tokens)})}</span>`}
      <${Cost} cost=${totals} />
      ${totals.failures > 0 && html`<${Badge} kind="bad">${t("log.failures", {count: formatNumber(totals.failures)})}<//>`}
      ${group.isOpen && html`<${Badge} kind="busy">${t("log.outcome.open")}<//>`}
      ${group.outcome && html`<${Badge} kind=${OUTCOMES[group.outcome]}>${t(`log.outcome.${group.outcome}`)}<//>`}
      ${group.cause && html`<${Jump} id=${id} link=${group.cause} text=${t("log.cause")} />`}
      ${group.effects.map((it) => html`<${Jump} key=${it.place ?? it.rev} id=${id} link=${it} />`)}
    </p>
    ${isOpen && html`<ol class="log-rows">${rows.slice(0, limit).map((row) => html`<${EventRow} key=${row.rev} id=${id} row=${row} costs=${costs}
      isTarget=${row.rev === highlight} />`)}</ol>
      ${rows.length > limit && html`<button onClick=${() => setMore(limit + ROWS * 5)}>${t("log.rows.more", {count: formatNumber(rows.length - limit)})}</button>`}`}
  </article>`;
}

/** What the session itself did, by the names of its first events. */
function eventNames(group) {
  const names = [...new Set(group.rows.map((row) => t(`log.event.${row.type}`)))];
  return names.slice(0, 3).join(", ") + (names.length > 3 ? "…" : "");
}
