/* The stored receipt of a search: what it did, how long that took, and what each arm found. */
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDateTime, formatDuration} from "../cockpit/formats.js";
import {DataTable, Details, Dialog, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {formatScore, named} from "./labels.js";
import {agentPath, documentAddress} from "./paths.js";

export function ReceiptDialog({agent, id, onClose}) {
  return html`<${Dialog} isOpen=${Boolean(id)} title=${t("memory.receipt")} onClose=${onClose}>
    ${id && html`<${Receipt} agent=${agent} id=${id} />`}<//>`;
}

function Receipt({agent, id}) {
  const stored = useResource(agentPath(agent, "memory", "receipts", id));
  if (!stored.data) return html`<${Waiting} resource=${stored} />`;
  const {at, asked_by: asker, receipt} = stored.data;
  const {total, ...stages} = receipt.took_ms ?? {};
  return html`<p class="detail">${t("memory.receipt.about")}</p>
    <${Details} items=${[
      [t("memory.receipt.id"), html`<code>${id}</code>`],
      [t("memory.receipt.at"), formatDateTime(at)],
      [t("memory.receipt.asked"), asker],
      [t("memory.search.store"), named("store", receipt.store)],
      [t("memory.filter.mode"), named("mode", receipt.mode)],
      [t("memory.filters"), receipt.filters?.join(", ")],
      [t("memory.receipt.degraded"), serverText(receipt.degraded)],
      [t("memory.receipt.cut"), receipt.cut?.map((it) => named("stage", it)).join(", ")],
      [t("memory.receipt.took"), total !== undefined && formatDuration(total)],
    ]} />
    <h3>${t("memory.receipt.arms")}</h3>
    <${DataTable} label=${t("memory.receipt.arms")} rowKey=${([arm]) => arm} rows=${Object.entries(receipt.arms ?? {})} columns=${[
      {key: "arm", title: t("memory.arm"), render: ([arm]) => named("arm", arm)},
      {key: "found", title: t("memory.receipt.found"), align: "end", render: ([, it]) => it.found},
    ]} />
    <h3>${t("memory.receipt.hits")}</h3>
    <${DataTable} label=${t("memory.receipt.hits")} rowKey=${(it) => it.id} rows=${receipt.hits ?? []} columns=${[
      {key: "id", title: t("memory.document"), render: (it) => html`<a href=${documentAddress(agent, it.id)}>${it.id.slice(0, 8)}</a>`},
      {key: "score", title: t("memory.arm.score"), align: "end", render: (it) => formatScore(it.score)},
      {key: "arms", title: t("memory.arms"), render: (it) => describeArms(it.arms)},
    ]} />
    <h3>${t("memory.receipt.stages")}</h3>
    <${DataTable} label=${t("memory.receipt.stages")} rowKey=${([name]) => name} rows=${Object.entries(stages)} columns=${[
      {key: "stage", title: t("memory.receipt.stage"), render: ([name]) => named("stage", name)},
      {key: "took", title: t("memory.receipt.took"), align: "end", render: ([, ms]) => `${formatScore(ms)} ms`},
    ]} />`;
}

/** "Words 0.412, meaning 0.301": the share of each arm in the score. */
export function describeArms(arms) {
  return Object.entries(arms)
    .filter(([, [, , part]]) => part)
    .map(([arm, [, , part]]) => `${named("arm", arm)} ${formatScore(part)}`)
    .join(", ") || "–";
}
