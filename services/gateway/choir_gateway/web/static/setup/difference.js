/* What a staged configuration would change, and who has the version in force. */
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {ActionButton, Badge, DataTable, Empty, Section, showInvisible} from "../cockpit/kit.js";

const KINDS = {added: "good", removed: "bad", changed: "warning"};
const CATEGORIES = {"hot-reload": "plain", "restart-required": "warning", "new-agent": "good", "removed-agent": "bad"};
const STATES = {applied: "good", waiting: "busy", failed: "bad"};

export function Difference({difference, isEdited, apply}) {
  const {changes, repos, warnings} = difference;
  return html`<${Section} title=${t("setup.diff")} detail=${t("setup.diff.detail", {version: difference.running_version})}
      actions=${changes.length > 0 && html`<${ActionButton} className="primary" disabled=${isEdited} action=${apply}>${t("setup.diff.apply")}</${ActionButton}>`}>
      ${isEdited && html`<p class="detail">${t("setup.diff.edited")}</p>`}
      ${warnings.map((it) => html`<p class="problem" key=${it}>${serverText(it)}</p>`)}
      ${changes.length === 0 && html`<${Empty}>${t("setup.diff.none")}</${Empty}>`}
      ${changes.length > 0 && html`<${DataTable} label=${t("setup.diff")} rows=${changes} rowKey=${(it) => it.path} columns=${[
        {key: "path", title: t("setup.diff.setting"), render: (it) => html`<${Badge} kind=${KINDS[it.kind]}>${t(`setup.diff.${it.kind}`)}</${Badge}> <code>${showInvisible(it.path)}</code>`},
        {key: "before", title: t("setup.diff.before"), render: (it) => it.kind !== "added" && html`<${Value} value=${it.before} />`},
        {key: "after", title: t("setup.diff.after"), render: (it) => it.kind !== "removed" && html`<${Value} value=${it.after} />`},
        {key: "category", title: t("setup.diff.effect"), render: (it) => html`<${Badge} kind=${CATEGORIES[it.category]}>${t(`setup.effect.${it.category}`)}</${Badge}>
          ${it.note && html`<div class="detail">${serverText(it.note)}</div>`}`},
      ]} />`}
      ${repos.map((it) => html`<p key=${it.owner} class="detail">${it.owner}: ${it.before?.slice(0, 7) ?? "–"} → ${it.after.slice(0, 7)}. ${serverText(it.note)}</p>`)}
    </${Section}>`;
}

function Value({value}) {
  return html`<code class="setup-value">${showInvisible(JSON.stringify(value, null, 1))}</code>`;
}

export function Report({report}) {
  return html`<${Section} title=${t("setup.report")} detail=${t("setup.config.version", {version: report.version})}>
    <div role="status"><ul class="setup-parts">${[...report.agents, report.gateway].map((it) => html`<li key=${it.name}>
      <strong>${it.name}</strong> <${Badge} kind=${STATES[it.state]}>${t(`setup.report.${it.state}`)}</${Badge}>
      ${it.detail && html`<span class="detail">${serverText(it.detail)}</span>`}</li>`)}</ul></div>
  </${Section}>`;
}
