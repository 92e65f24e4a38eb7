/* Search in memory, in the same way as the agent does, with the receipt of each hit. */
import {post} from "../app/api.js";
import {html, useRef, useState} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDuration} from "../cockpit/formats.js";
import {Empty} from "../cockpit/kit.js";
import {SearchFilters} from "./search-filters.js";
import {Hit} from "./hit.js";
import {named} from "./labels.js";
import {agentPath} from "./paths.js";
import {ReceiptDialog} from "./receipt.js";
import {TagError, readQuery, usedFilters} from "./search-query.js";

// what was searched for is there again after a look at a document
const kept = new Map();

export function SearchTab({agent, parts}) {
  const before = kept.get(agent) ?? {store: "session", query: "", found: null};
  const [store, setStore] = useState(parts[0] === "knowledge" ? "knowledge" : before.store);
  const [found, setFound] = useState(before.found);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const latest = useRef(0);

  async function search(event) {
    event.preventDefault();
    const own = ++latest.current;
    setProblem("");
    setBusy(true);
    try {
      const query = readQuery(new FormData(event.target));
      const answer = await post(agentPath(agent, "memory", "search"), query);
      if (own !== latest.current) return;
      const result = {query, answer};
      kept.set(agent, {store, query: query.query, found: result});
      setFound(result);
    } catch (error) {
      if (own === latest.current) setProblem(error instanceof TagError ? t("memory.tags.wrong", {tag: error.message}) : error.message);
    }
    if (own === latest.current) setBusy(false);
  }

  return html`<form class="memory-search" role="search" onSubmit=${search}>
      <div class="toolbar">
        <input class="grow" type="search" name="query" aria-label=${t("memory.search.query")}
          placeholder=${t("memory.search.query")} defaultValue=${before.query} maxlength="10000" />
        <select name="store" aria-label=${t("memory.search.store")} onChange=${(event) => setStore(event.target.value)}>
          <option value="session" selected=${store === "session"}>${t("memory.store.session")}</option>
          <option value="knowledge" selected=${store === "knowledge"}>${t("memory.store.knowledge")}</option>
        </select>
        <button class="primary" disabled=${isBusy} aria-busy=${isBusy}>${t("memory.search.submit")}</button>
      </div>
      <${SearchFilters} store=${store} agent=${agent} collection=${store === "knowledge" ? parts[1] : undefined} />
    </form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${found ? html`<${Results} key=${found.answer.receipt_id} agent=${agent} found=${found} />`
      : !problem && html`<${Empty}>${t("memory.search.start")}<//>`}`;
}

function Results({agent, found}) {
  const [isReceiptOpen, setReceiptOpen] = useState(false);
  const {answer, query} = found;
  const best = Math.max(...answer.hits.map((it) => it.score), 0);
  const total = answer.receipt?.took_ms?.total;
  return html`<section class="section" aria-label=${t("memory.search.results")}>
    <div class="section-head"><h2>${t("memory.search.found", {count: answer.hits.length})}</h2>
      <span class="detail" role="status">${total !== undefined && formatDuration(total)}
        ${usedFilters(query).length > 0 && ` · ${t("memory.search.filtered", {count: usedFilters(query).length})}`}</span>
      <div class="section-actions">${answer.receipt_id && html`<button onClick=${() => setReceiptOpen(true)}>${t("memory.receipt")}</button>`}</div></div>
    <${Remarks} answer=${answer} />
    ${answer.hits.length === 0 && html`<${Empty}>${t("memory.search.none")}<//>`}
    <ol class="memory-list">${answer.hits.map((hit) => html`<${Hit} key=${hit.document_id} agent=${agent} hit=${hit} best=${best} />`)}</ol>
    <${ReceiptDialog} agent=${agent} id=${isReceiptOpen ? answer.receipt_id : null} onClose=${() => setReceiptOpen(false)} />
  </section>`;
}

/** What limited the search, or changed its words. */
function Remarks({answer}) {
  const lines = [];
  if (answer.degraded) lines.push(t("memory.search.degraded", {problem: serverText(answer.degraded)}));
  if (answer.cut.length) lines.push(t("memory.search.cut", {stages: answer.cut.map((it) => named("stage", it)).join(", ")}));
  for (const [word, others] of Object.entries(answer.similar_words)) {
    lines.push(t("memory.search.similar", {word, others: others.join(", ")}));
  }
  if (answer.added_words.length) lines.push(t("memory.search.added", {words: answer.added_words.join(", ")}));
  return lines.length > 0 && html`<ul class="memory-remarks">${lines.map((it) => html`<li dir="auto">${it}</li>`)}</ul>`;
}
