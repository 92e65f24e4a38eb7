/* What a document replaced, and what replaced it, oldest first. */
import {get} from "../app/api.js";
import {html, useEffect, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {Badge, Empty, explain} from "../cockpit/kit.js";
import {keepTrying} from "../cockpit/resource.js";
import {describeValidity, effectiveStatus, named, statusKind} from "./labels.js";
import {Words} from "./parts.js";
import {agentPath, documentAddress} from "./paths.js";

const MAX_STEPS = 20;

export function History({agent, detail}) {
  const [chain, setChain] = useState([detail]);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    keepTrying(() => loadChain(agent, detail), {
      isWanted: () => isCurrent,
      onFailure: (error) => setProblem(explain(error)),
    }).then((found) => {
      if (!isCurrent || !found) return;
      setChain(found);
      setProblem("");
    });
    return () => { isCurrent = false; };
  }, [detail]);
  return html`${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${chain.length === 1 && html`<${Empty}>${t(detail.record.version > 1 ? "memory.history.edited" : "memory.history.none",
      {version: detail.record.version, at: formatDateTime(detail.record.updated_at)})}<//>`}
    ${chain.length > 1 && html`<ol class="memory-history" aria-label=${t("memory.history")}>${chain.map(
      (it) => html`<${Step} key=${it.record.id} agent=${agent} record=${it.record} isShown=${it.record.id === detail.record.id} />`)}</ol>`}`;
}

function Step({agent, record, isShown}) {
  const status = effectiveStatus(record);
  return html`<li aria-current=${isShown ? "true" : undefined}>
    <div class="memory-line"><${Badge} kind=${statusKind(status)}>${named("status", status)}<//>
      <span class="detail">${describeValidity(record) || formatDateTime(record.created_at)}</span>
      ${isShown ? html`<span class="detail">${t("memory.history.this")}</span>`
        : html`<a class="memory-open" href=${documentAddress(agent, record.id)}>${t("memory.document.open")}</a>`}</div>
    <${Words} text=${record.text} /></li>`;
}

/** Follow the links in both directions; the oldest documents come first. */
async function loadChain(agent, detail) {
  const seen = new Map([[detail.record.id, detail]]);
  const waiting = [detail];
  while (waiting.length && seen.size < MAX_STEPS) {
    const {links} = waiting.shift();
    for (const link of links.filter((it) => it.kind === "supersedes" && it.text !== null)) {
      if (seen.has(link.document_id) || seen.size >= MAX_STEPS) continue;
      const found = await get(agentPath(agent, "memory", "documents", link.document_id));
      seen.set(link.document_id, found);
      waiting.push(found);
    }
  }
  return sortChain([...seen.values()]);
}

/** What was replaced stands before what replaced it. */
export function sortChain(details) {
  const order = [];
  const left = new Map(details.map((it) => [it.record.id, it]));
  const add = (detail) => {
    if (!left.delete(detail.record.id)) return;
    for (const link of detail.links) {
      if (link.kind === "supersedes" && link.direction === "from" && left.has(link.document_id)) add(left.get(link.document_id));
    }
    order.push(detail);
  };
  for (const detail of details) add(detail);
  return order;
}
