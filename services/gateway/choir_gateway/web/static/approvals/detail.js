/* One request: what is asked, what to look at, the exact change, and the decision or the rollback. */
import {html, useEffect} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {Badge, Details, PageFrame, Section, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {Change, Spelled} from "./change.js";
import {DecisionBar, RollbackBar} from "./decision.js";
import {Subject} from "./list.js";
import {refreshRequests, requests} from "./requests.js";
import {deciderText, isUnderWay, questionText, riskNotes, spelledCharacters, stateKind, stateText, typeText} from "./texts.js";

const UNDER_WAY_MS = 1_500;

export function ApprovalDetail({id}) {
  const resource = useResource(`v1/approvals/${encodeURIComponent(id)}`);
  const request = resource.data;
  const listed = (requests.value ?? []).find((it) => it.approval_id === id);
  useEffect(() => {
    if (!request || !isUnderWay(request)) return undefined;
    const timer = setInterval(() => { if (!document.hidden) reload(); }, UNDER_WAY_MS);
    return () => clearInterval(timer);
  }, [request?.state]);
  // decided elsewhere, or an effect was made
  useEffect(() => { if (request && listed && listed.state !== request.state) resource.reload(); }, [listed?.state]);

  async function reload() {
    await Promise.all([resource.reload(), refreshRequests()]);
  }

  return html`<${PageFrame} title=${request ? typeText(request) : t("page.approvals")} detail=${request?.agent_id}
    actions=${html`<a class="button" href=${addressOf("approvals")}>${t("approvals.all")}</a>`}>
    <${Waiting} resource=${resource} />
    ${request && html`<${Question} request=${request} />
      <${Notes} request=${request} />
      <${Section} title=${t("approvals.change")} detail=${t("approvals.change.whole")}>
        <${Change} lines=${request.lines} /></${Section}>
      <${Section} title=${t("approvals.details")}><div class="panel"><${Facts} request=${request} /></div></${Section}>
      ${request.status === "pending" && html`<${DecisionBar} key=${request.digest} request=${request} reload=${reload} />`}
      ${request.state === "applied" && html`<${RollbackBar} request=${request} reload=${reload} />`}`}
  </${PageFrame}>`;
}

function Question({request}) {
  return html`<div class="panel question">
    <h2>${questionText(request)} <${Badge} kind=${stateKind(request)}>${stateText(request)}</${Badge}></h2>
    <p class="subject"><${Subject} request=${request} /></p>
    ${request.detail && html`<p class="result" role="status"><${Spelled} text=${serverText(request.detail)} /></p>`}
  </div>`;
}

function Notes({request}) {
  const notes = riskNotes(request);
  const characters = spelledCharacters(request);
  if (notes.length === 0 && characters.length === 0) return null;
  return html`<${Section} title=${t("approvals.notes")}>
    <ul class="notes">${notes.map((note) => html`<li key=${note.text} data-kind=${note.kind}><${Spelled} text=${note.text} /></li>`)}
      ${characters.length > 0 && html`<li data-kind="bad">${t("approvals.note.characters")}
        <ul class="characters">${characters.map((it) => html`<li key=${it.number}><mark class="invisible">${`U+${it.number}`}</mark> ${it.name} <span class="detail">× ${it.count}</span></li>`)}</ul></li>`}
    </ul></${Section}>`;
}

function Facts({request}) {
  return html`<${Details} items=${[
    [t("approvals.agent"), request.agent_id],
    [t("approvals.asked"), formatDateTime(request.created_at)],
    [t("approvals.decided"), request.resolved_at && `${deciderText(request)}, ${formatDateTime(request.resolved_at)}`],
    [t("approvals.digest"), html`<code class="digest">${request.digest || "–"}</code>`],
    [t("approvals.id"), html`<code>${request.approval_id}</code>`],
    [t("approvals.session"), html`<code>${request.session_id}</code>`],
  ]} />`;
}
