/* Filters of the timeline: a text, the kind of a row, the lane and the tool. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";
import {KINDS} from "./timeline.js";

export function FilterBar({timeline, filter, setFilter}) {
  const set = (name) => (event) => setFilter({...filter, [name]: event.target.value});
  return html`<div class="toolbar" role="search">
    <input class="grow" type="search" aria-label=${t("log.search")} placeholder=${t("log.search")} value=${filter.text} onInput=${set("text")} />
    <${Choice} label=${t("log.kind")} value=${filter.kind} onChange=${set("kind")}
      options=${[...KINDS, "failed"].map((it) => [it, t(`log.kind.${it}`)])} />
    <${Choice} label=${t("log.lane")} value=${filter.lane} onChange=${set("lane")} options=${[...timeline.lanes].sort().map((it) => [it, it])} />
    <${Choice} label=${t("log.tool")} value=${filter.tool} onChange=${set("tool")} options=${[...timeline.tools].sort().map((it) => [it, it])} />
  </div>`;
}

function Choice({label, value, onChange, options}) {
  return html`<label class="log-filter">${label}<select value=${value} onChange=${onChange}>
    <option value="">${t("log.all")}</option>
    ${options.map(([name, title]) => html`<option key=${name} value=${name} selected=${name === value}>${title}</option>`)}
  </select></label>`;
}
