/* A hit of a search, and why it was found: the arms that ranked it, with their scores. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";
import {showInvisible} from "../cockpit/kit.js";
import {formatScore, named} from "./labels.js";
import {Bar, DocumentBadges, Origin, Words} from "./parts.js";
import {documentAddress} from "./paths.js";

export function Hit({agent, hit, best}) {
  return html`<li class="panel memory-item">
    <div class="memory-line"><${DocumentBadges} item=${hit} />
      ${hit.key && html`<code dir="auto">${showInvisible(hit.key)}</code>`}
      <span class="memory-score" title=${t("memory.hit.score")}>${formatScore(hit.score)}</span></div>
    <${Bar} value=${hit.score} max=${best} label=${t("memory.hit.score.label", {score: formatScore(hit.score)})} />
    ${hit.before.map((it) => html`<${Neighbour} key=${it.document_id} item=${it} />`)}
    <${Words} text=${hit.text} isCut=${hit.truncated} />
    ${hit.after.map((it) => html`<${Neighbour} key=${it.document_id} item=${it} />`)}
    <${Origin} item=${hit} at=${hit.happened_at ?? hit.created_at} />
    <div class="memory-line">
      <details class="memory-why"><summary>${t("memory.hit.why")}</summary>
        <${Arms} arms=${hit.arms} score=${hit.score} relevance=${hit.relevance} /></details>
      <a class="memory-open" href=${documentAddress(agent, hit.document_id)}>${t("memory.document.open")}</a></div>
  </li>`;
}

function Neighbour({item}) {
  return html`<div class="memory-neighbour">${item.speaker && html`<b dir="auto">${showInvisible(item.speaker)}</b>`}<${Words} text=${item.text} /></div>`;
}

/** The receipt of a hit. An arm of rank 0 did not find it, and may still have changed its score. */
export function Arms({arms, score, relevance}) {
  if (arms.length === 0) return html`<p class="detail">${t("memory.arms.none")}</p>`;
  return html`<div class="data-table" tabindex="0" role="region" aria-label=${t("memory.arms")}><table>
    <thead><tr><th scope="col">${t("memory.arm")}</th><th scope="col" class="end">${t("memory.arm.rank")}</th>
      <th scope="col" class="end">${t("memory.arm.score")}</th><th scope="col">${t("memory.arm.part")}</th></tr></thead>
    <tbody>${arms.map((it) => html`<tr key=${it.arm}><th scope="row">${named("arm", it.arm)}</th>
      <td class="end">${it.rank || "–"}</td><td class="end">${formatScore(it.score)}</td>
      <td><span class="memory-part"><${Bar} value=${it.part} max=${score} label=${formatScore(it.part)} /><span aria-hidden="true">${formatScore(it.part)}</span></span></td></tr>`)}</tbody>
  </table></div>
  ${relevance !== undefined && html`<p class="detail">${t("memory.hit.relevance", {relevance: formatScore(relevance)})}</p>`}`;
}
