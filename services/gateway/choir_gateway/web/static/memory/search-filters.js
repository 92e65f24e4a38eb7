/* The filters of a search: everything that agents can set. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";
import {Field} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {named} from "./labels.js";
import {agentPath} from "./paths.js";
import {GRAINS, HIDDEN, KINDS, TIERS} from "./search-query.js";

export function SearchFilters({store, agent, collection}) {
  const isSession = store === "session";
  return html`<details class="memory-filters" open=${collection !== undefined}><summary>${t("memory.filters")}</summary>
    <div class="memory-fields">
      <${Field} label=${t("memory.filter.mode")}><select name="mode">
        ${["semantic", "text", ...(isSession ? ["session_detail"] : [])].map((it) => html`<option key=${it} value=${it}>${named("mode", it)}</option>`)}</select><//>
      <${Field} label=${t("memory.filter.since")}><input type="date" name="since" /><//>
      <${Field} label=${t("memory.filter.until")}><input type="date" name="until" /><//>
      <${Field} label=${t("memory.filter.min_days_ago")}><input type="number" name="min_days_ago" min="0" max="100000" /><//>
      <${Field} label=${t("memory.filter.max_days_ago")}><input type="number" name="max_days_ago" min="0" max="100000" /><//>
      <${Field} label=${t("memory.filter.min_score")} hint=${t("memory.filter.min_score.hint")}>
        <input type="number" name="min_score" min="0" max="1" step="0.01" /><//>
      <${Field} label=${t("memory.filter.min_trust")} hint=${t("memory.filter.min_trust.hint")}><input type="number" name="min_trust" min="0" max="100" /><//>
      <${Field} label=${t("memory.filter.limit")}><input type="number" name="limit" min="1" max="50" placeholder="10" /><//>
      <${Field} label=${t("memory.filter.tags")} hint=${t("memory.filter.tags.hint")}><input name="tags" spellcheck=${false} /><//>
      <${Field} label=${t("memory.filter.scopes")} hint=${t("memory.filter.commas")}><input name="scopes" spellcheck=${false} /><//>
      <${Field} label=${t("memory.filter.origins")} hint=${t("memory.filter.origins.hint")}><input name="origins" spellcheck=${false} /><//>
      ${isSession ? html`<${OfSessions} />` : html`<${OfKnowledge} agent=${agent} collection=${collection} />`}
    </div>
    <${Choices} key=${store} name="kinds" label=${t("memory.filter.kinds")} values=${KINDS[store]} group="kind" />
    ${isSession && html`<${Choices} name="tiers" label=${t("memory.filter.tiers")} values=${TIERS} group="tier" />`}
    <${Choices} name="include" label=${t("memory.filter.include")} values=${HIDDEN} group="status" />
    <div class="toolbar">
      <label class="memory-check"><input type="checkbox" name="context" />${t("memory.filter.context")}</label>
      <label class="memory-check"><input type="checkbox" name="expand" />${t("memory.filter.expand")}</label>
      <button type="reset">${t("memory.filter.reset")}</button>
    </div>
  </details>`;
}

function OfSessions() {
  return html`<${Field} label=${t("memory.filter.speakers")} hint=${t("memory.filter.commas")}><input name="speakers" /><//>
    <${Field} label=${t("memory.filter.grain")}><select name="grain"><option value="">${t("memory.any")}</option>
      ${GRAINS.map((it) => html`<option key=${it} value=${it}>${named("grain", it)}</option>`)}</select><//>
    <${Field} label=${t("memory.filter.session_id")}><input name="session_id" spellcheck=${false} /><//>
    <${Field} label=${t("memory.filter.exclude_session")}><input name="exclude_session" spellcheck=${false} /><//>`;
}

function OfKnowledge({agent, collection}) {
  const collections = useResource(agentPath(agent, "collections"));
  return html`<${Field} label=${t("memory.filter.collection")}><select name="collection"><option value="">${t("memory.any")}</option>
    ${(collections.data?.collections ?? []).map((it) => html`<option key=${it.name} value=${it.name} selected=${it.name === collection}>${it.name}</option>`)}</select><//>`;
}

/** Checkboxes; none means the default. */
function Choices({name, label, values, group}) {
  return html`<fieldset class="memory-choices"><legend>${label}</legend>${values.map(
    (it) => html`<label class="memory-check" key=${it}><input type="checkbox" name=${name} value=${it} />${named(group, it)}</label>`)}</fieldset>`;
}
