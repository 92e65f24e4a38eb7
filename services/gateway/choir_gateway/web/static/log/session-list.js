/* All sessions, newest first. */
import {get} from "../app/api.js";
import {html, useRef, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatAgo, formatDateTime, formatDuration, formatNumber} from "../cockpit/formats.js";
import {ActionButton, Badge, DataTable, Empty, PageFrame, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";

const KINDS = {
  starting: "busy", active: "good", stopping: "busy", stopped: "plain", suspended: "warning", crashed: "bad", abandoned: "bad",
};

export function StatusBadge({status}) {
  return html`<${Badge} kind=${KINDS[status]}>${t(`log.status.${status}`)}<//>`;
}

export function SessionList() {
  const [agent, setAgent] = useState("");
  const [later, setLater] = useState([]); // pages after the first one
  const agents = useResource("v1/agents");
  const current = useRef("");
  const query = agent ? `&agent_id=${encodeURIComponent(agent)}` : "";
  const first = useResource(`v1/sessions?limit=50${query}`, {everyMs: IDLE_MS});
  const known = new Set(first.data?.items.map((it) => it.session_id));
  // a new session moves others from the first page to the second
  const sessions = [...(first.data?.items ?? []), ...later.flatMap((page) => page.items).filter((it) => !known.has(it.session_id))];
  const next = (later.at(-1) ?? first.data)?.next;

  current.current = query;

  async function loadMore() {
    const asked = query;
    const page = await get(`v1/sessions?limit=50${query}&cursor=${encodeURIComponent(next)}`);
    // another agent may have been chosen meanwhile
    if (asked === current.current) setLater([...later, page]);
  }

  return html`<${PageFrame} title=${t("page.log")}>
    <div class="toolbar"><label class="log-filter">${t("log.agent")}
      <select value=${agent} onChange=${(event) => { setLater([]); setAgent(event.target.value); }}>
        <option value="">${t("log.all")}</option>
        ${(agents.data?.items ?? []).map((it) => html`<option key=${it.agent_id} value=${it.agent_id}>${it.agent_id}</option>`)}
      </select></label></div>
    <${Waiting} resource=${first} />
    ${first.data && (sessions.length
      ? html`<${DataTable} label=${t("log.sessions")} columns=${columns()} rows=${sessions} rowKey=${(it) => it.session_id} />`
      : html`<${Empty}>${t("log.none")}<//>`)}
    ${next && html`<div class="log-more"><${ActionButton} action=${loadMore}>${t("log.more.sessions")}<//></div>`}
  <//>`;
}

function columns() {
  return [
    {key: "agent", title: t("log.agent"), render: (it) => html`<a class="log-session" href=${addressOf("log", it.session_id)}>${it.agent_id}
      <small>${it.session_id}</small></a>`},
    {key: "status", title: t("log.status"), render: (it) => html`<${StatusBadge} status=${it.status} />`},
    {key: "begun", title: t("log.begun"), render: (it) => html`<time title=${formatDateTime(it.started_at)}>${formatAgo(it.started_at)}</time>`},
    {key: "ended", title: t("log.ended"), render: (it) => it.ended_at && html`<time title=${formatDateTime(it.ended_at)}>${formatAgo(it.ended_at)}</time>`},
    {key: "lasted", title: t("log.lasted"), align: "end", render: (it) => it.ended_at && formatDuration(new Date(it.ended_at) - new Date(it.started_at))},
    {key: "events", title: t("log.events"), align: "end", render: (it) => formatNumber(it.head_rev)},
    {key: "why", title: t("log.why"), render: (it) => serverText(it.end_reason)},
    {key: "dms", title: t("log.conversations"), render: (it) => it.conversations.join(", ")},
  ];
}
