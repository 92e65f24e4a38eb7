/* All requests: those that wait for a decision, then the decided ones. */
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {formatAgo, formatDateTime} from "../cockpit/formats.js";
import {Badge, DataTable, Empty, PageFrame, Section, Waiting} from "../cockpit/kit.js";
import {Spelled} from "./change.js";
import {pending, problem, refreshRequests, requests} from "./requests.js";
import {deciderText, questionText, stateKind, stateText, typeText} from "./texts.js";

const SHOWN_FIRST = 25;

export function ApprovalList() {
  const decided = (requests.value ?? []).filter((it) => it.status !== "pending");
  return html`<${PageFrame} title=${t("page.approvals")}>
    <${Waiting} resource=${{data: requests.value ?? undefined, error: problem.value, isLoading: !problem.value, reload: refreshRequests}} />
    ${requests.value !== null && html`
      <${Section} title=${t("approvals.pending")} detail=${pending.value.length || ""}>
        <div aria-live="polite">${pending.value.length === 0
          ? html`<${Empty}>${t("approvals.pending.none")}</${Empty}>`
          : html`<ul class="requests">${pending.value.map((it) => html`<${PendingRequest} key=${it.approval_id} request=${it} />`)}</ul>`}</div>
      </${Section}>
      <${Section} title=${t("approvals.history")}><${History} decided=${decided} /></${Section}>`}
  </${PageFrame}>`;
}

function PendingRequest({request}) {
  return html`<li class="panel request">
    <div class="request-text">
      <h3>${questionText(request)}</h3>
      <p class="subject"><${Subject} request=${request} /></p>
      <p class="detail"><time datetime=${request.created_at} title=${formatDateTime(request.created_at)}>${formatAgo(request.created_at)}</time></p>
    </div>
    <a class="button primary" href=${addressOf("approvals", request.approval_id)}
      aria-label=${t("approvals.review.of", {subject: request.subject})}>${t("approvals.review")}</a>
  </li>`;
}

function History({decided}) {
  const [isWhole, setWhole] = useState(false);
  if (decided.length === 0) return html`<${Empty}>${t("approvals.history.none")}</${Empty}>`;
  const columns = [
    {key: "subject", title: t("approvals.what"), render: (it) => html`<a href=${addressOf("approvals", it.approval_id)}>
      <${Subject} request=${it} /></a><div class="detail">${typeText(it)}</div>`},
    {key: "agent_id", title: t("approvals.agent")},
    {key: "state", title: t("approvals.state"), render: (it) => html`<${Badge} kind=${stateKind(it)}>${stateText(it)}</${Badge}>`},
    {key: "decided_by", title: t("approvals.decided"), render: (it) => deciderText(it)},
    {key: "at", title: t("approvals.when"), render: (it) => {
      const at = it.resolved_at ?? it.created_at;
      return html`<time datetime=${at} title=${formatDateTime(at)}>${formatAgo(at)}</time>`;
    }},
  ];
  const rows = isWhole ? decided : decided.slice(0, SHOWN_FIRST);
  return html`<${DataTable} label=${t("approvals.history")} columns=${columns} rows=${rows} rowKey=${(it) => it.approval_id} />
    ${rows.length < decided.length && html`<p><button onClick=${() => setWhole(true)}>${
      t("approvals.history.more", {count: decided.length - rows.length})}</button></p>`}`;
}

export function Subject({request}) {
  return html`<code class="subject-name" dir="ltr"><${Spelled} text=${request.subject || request.request_type} /></code>`;
}
