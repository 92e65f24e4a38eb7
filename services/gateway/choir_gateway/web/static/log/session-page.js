/* One session: facts, lanes over time, filters, and the timeline. */
import {html, useEffect, useMemo, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDateTime, formatMoney, formatNumber} from "../cockpit/formats.js";
import {Badge, Empty, explain, PageFrame, Section, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {ExportDialog} from "./export-dialog.js";
import {FilterBar} from "./filter-bar.js";
import {isFiltering, NO_FILTER, select} from "./filters.js";
import {GroupCard} from "./group-card.js";
import {LaneChart} from "./lane-chart.js";
import {isLive, SessionLog} from "./session-log.js";
import {StatusBadge} from "./session-list.js";
import {Verification} from "./verification.js";

const GROUPS = 40; // shown at once
const NEWER = 5; // groups above one that was jumped to
const OPEN_FOUND = 10; // groups that a search opens

/** `place` is a revision, the id of a call or of another agent's question, or null. */
export function SessionPage({id, place}) {
  const session = useResource(`v1/sessions/${encodeURIComponent(id)}`);
  if (!session.data) return html`<${PageFrame} title=${t("page.log")} detail=${id}><${Waiting} resource=${session} /><//>`;
  return html`<${SessionView} session=${session.data} reload=${session.reload} place=${place} />`;
}

function SessionView({session, reload, place}) {
  const id = session.session_id;
  const log = useMemo(() => new SessionLog(id), []);
  const [filter, setFilter] = useState(NO_FILTER);
  const [isExporting, setExporting] = useState(false);
  const costs = useCosts(id, isLive(session));
  useEffect(() => {
    log.open(session, typeof place === "number" ? place : null);
    return () => log.close();
  }, []);
  useEffect(() => { if (log.hasEnded.value) reload(); }, [log.hasEnded.value]);

  const version = log.version.value;
  const found = useMemo(() => select(log.timeline.groups, filter), [version, filter]);
  const actions = html`<button onClick=${() => setExporting(true)}>${t("log.export")}</button>`;

  return html`<${PageFrame} title=${session.agent_id} detail=${id} actions=${actions}>
    <a class="log-back" href=${addressOf("log")}>${t("log.back")}</a>
    <${Facts} session=${session} log=${log} costs=${costs} />
    <${Verification} id=${id} />
    <${LaneChart} id=${id} groups=${log.timeline.groups} version=${version} />
    <${Section} title=${t("log.timeline")} detail=${t("log.loaded", {from: formatNumber(log.firstRev), to: formatNumber(log.lastRev)})}>
      <${FilterBar} timeline=${log.timeline} filter=${filter} setFilter=${setFilter} />
      <${Timeline} id=${id} log=${log} found=${found} filter=${filter} setFilter=${setFilter} costs=${costs.byRev} place=${place} />
    <//>
    <${ExportDialog} id=${id} isOpen=${isExporting} onClose=${() => setExporting(false)} />
  <//>`;
}

function useCosts(id, live) {
  const resource = useResource(`v1/cost?by=event&since=2000-01-01&session=${encodeURIComponent(id)}`, {everyMs: live ? IDLE_MS : 0});
  return useMemo(() => ({
    byRev: new Map(resource.data?.lines.map((line) => [line.group, line])), total: resource.data?.total,
  }), [resource.data]);
}

function Facts({session, log, costs}) {
  const total = costs.total;
  return html`<dl class="log-facts panel">
    <div><dt>${t("log.status")}</dt><dd><${StatusBadge} status=${session.status} />
      ${isLive(session) && html` <span role="status">${log.isConnected.value ? t("log.live") : t("connection.lost")}</span>`}</dd></div>
    <div><dt>${t("log.begun")}</dt><dd>${formatDateTime(session.started_at)}</dd></div>
    ${session.ended_at && html`<div><dt>${t("log.ended")}</dt><dd>${formatDateTime(session.ended_at)}</dd></div>`}
    ${session.end_reason && html`<div><dt>${t("log.why")}</dt><dd>${serverText(session.end_reason)}</dd></div>`}
    <div><dt>${t("log.events")}</dt><dd>${formatNumber(Math.max(session.head_rev, log.lastRev))}</dd></div>
    ${total && html`<div><dt>${t("log.cost")}</dt><dd>${formatMoney(total.cost_usd)}${total.unknown_calls > 0
      && html` <${Badge} kind="warning">${t("log.unpriced", {count: total.unknown_calls})}<//>`}</dd></div>
    <div><dt>${t("log.tokens")}</dt><dd>${formatNumber(total.prompt_tokens + total.completion_tokens)}</dd></div>`}
    <div><dt>${t("log.conversations")}</dt><dd>${session.conversations.join(", ")}</dd></div>
    ${session.continues && html`<div><dt>${t("log.continues")}</dt><dd><a href=${addressOf("log", session.continues)}>${session.continues}</a></dd></div>`}
  </dl>`;
}

function Timeline({id, log, found, filter, setFilter, costs, place}) {
  const [first, setFirst] = useState(null); // key of the first group shown; null: the newest
  const [shown, setShown] = useState(GROUPS);
  const [opened, setOpened] = useState({}); // by the user: key -> whether it is open
  useEffect(() => { if (isFiltering(filter)) showFrom(0); }, [filter]);
  const isSearch = isFiltering(filter);
  const rev = typeof place === "string" ? log.timeline.revisionOf(place) : place;
  const target = log.timeline.byRev.get(rev);
  const from = first === null ? 0 : Math.max(0, found.findIndex(({group}) => group.key === first));

  function showFrom(at, count = GROUPS) {
    setFirst(at > 0 ? log.timeline.groups.at(-1 - at).key : null);
    setShown(count);
  }

  useEffect(() => {
    if (place === null || log.isLoading.value) return;
    if (!target && log.firstRev > 1 && (rev ?? 0) < log.firstRev) log.loadEarlier(true);
    if (!target) return;
    if (isSearch) setFilter(NO_FILTER);
    // only the groups around it: a browser needs many seconds to lay out thousands
    const at = log.timeline.groups.length - 1 - log.timeline.groups.indexOf(target.group);
    if (isSearch || at < from || at >= from + shown) showFrom(at - NEWER);
    setOpened((all) => ({...all, [target.group.key]: true}));
    const timer = setTimeout(() => {
      const row = document.getElementById(`rev-${target.row.rev}`);
      row?.scrollIntoView({block: "center"});
      row?.querySelector("button")?.focus({preventScroll: true});
    }, 50);
    return () => clearTimeout(timer);
  }, [place, Boolean(target), log.isLoading.value]);

  const hasEarlier = log.firstRev > 1;
  const end = from + shown;
  return html`
    ${log.problem.value && html`<p class="problem" role="alert">${explain(log.problem.value)}</p>`}
    ${isSearch && html`<p class="detail" role="status">${t("log.found", {count: formatNumber(found.reduce((sum, it) => sum + it.rows.length, 0))})}
      ${hasEarlier && html` <button onClick=${() => log.loadEarlier(true)} disabled=${log.isLoading.value}>${t("log.search.all", {count: formatNumber(log.firstRev - 1)})}</button>`}</p>`}
    ${from > 0 && html`<div class="log-more"><button onClick=${() => showFrom(from - GROUPS, shown + Math.min(from, GROUPS))}>${t("log.later")}</button></div>`}
    <ol class="log-groups" aria-busy=${log.isLoading.value} aria-label=${t("log.timeline")}>${found.slice(from, end).map(({group, rows}, number) => html`<li key=${group.key}>
      <${GroupCard} id=${id} group=${group} rows=${rows} costs=${costs} highlight=${target?.row.rev}
        isOpen=${opened[group.key] ?? from + number < (isSearch ? OPEN_FOUND : 1)}
        onToggle=${(isOpen) => setOpened((all) => ({...all, [group.key]: isOpen}))} /></li>`)}</ol>
    ${!found.length && !log.problem.value && html`<${Empty}>${log.isLoading.value ? t("loading") : t(isSearch ? "log.nothing" : "log.empty")}<//>`}
    ${(found.length > end || hasEarlier) && html`<div class="log-more"><button disabled=${log.isLoading.value}
      onClick=${() => { setShown(shown + GROUPS); if (found.length <= end && hasEarlier) log.loadEarlier(); }}>${t("log.earlier")}</button></div>`}`;
}
