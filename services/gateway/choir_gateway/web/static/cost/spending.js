/* Money by day, agent, model and job. */
import {html, useState} from "../app/html.js";
import {language, t} from "../app/texts.js";
import {formatMoney, formatNumber} from "../cockpit/formats.js";
import {Badge, DataTable, Empty, Section, showInvisible, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {ColumnChart, ShareBar} from "./charts.js";
import {fillDays, measureOf, sinceDay, tokensOf} from "./sums.js";

const LINES = 10; // of a table, before it is opened

export function Spending() {
  const [days, setDays] = useState(30);
  const [agent, setAgent] = useState("");
  const [model, setModel] = useState("");
  const query = new URLSearchParams({since: sinceDay(days), ...(agent && {agent}), ...(model && {model})});
  const byDay = useResource(`v1/cost?by=day&${query}`);
  // these two also fill the choices, so they must not depend on their own filter
  const agents = useResource(`v1/cost?by=agent&since=${sinceDay(days)}`);
  const models = useResource(`v1/cost?by=model&since=${sinceDay(days)}`);
  return html`
    <div class="toolbar">
      <label class="log-filter">${t("cost.period")}<select value=${days} onChange=${(event) => setDays(Number(event.target.value))}>
        ${[7, 30, 90, 365].map((it) => html`<option key=${it} value=${it} selected=${it === days}>${t("cost.days", {count: it})}</option>`)}</select></label>
      <${Choice} label=${t("cost.agent")} value=${agent} onChoose=${setAgent} report=${agents.data} />
      <${Choice} label=${t("cost.model")} value=${model} onChoose=${setModel} report=${models.data} />
      <button onClick=${() => { byDay.reload(); agents.reload(); models.reload(); }}>${t("cost.reload")}</button>
    </div>
    <${Waiting} resource=${byDay} />
    ${byDay.data && html`<${Report} report=${byDay.data} />`}
    ${byDay.data?.total.calls > 0 && ["agent", "model", "job"].map((by) => html`<${Breakdown} key=${by} by=${by} query=${query} />`)}`;
}

function Choice({label, value, onChoose, report}) {
  const names = (report?.lines ?? []).map((line) => line.group).filter(Boolean);
  return html`<label class="log-filter">${label}<select value=${value} onChange=${(event) => onChoose(event.target.value)}>
    <option value="">${t("cost.all")}</option>
    ${names.map((name) => html`<option key=${name} value=${name} selected=${name === value}>${name}</option>`)}</select></label>`;
}

function Report({report}) {
  const {total} = report;
  const days = fillDays(report);
  const measure = measureOf(total);
  const isMoney = measure !== tokensOf;
  return html`<div class="cost-total">
      <${Figure} title=${t("cost.total")} value=${formatMoney(total.cost_usd)} />
      <${Figure} title=${t("cost.today")} value=${formatMoney(days.at(-1).cost_usd)} />
      <${Figure} title=${t("cost.calls")} value=${formatNumber(total.calls)} />
      <${Figure} title=${t("cost.tokens")} value=${formatNumber(tokensOf(total))} />
    </div>
    ${report.unpriced.length > 0 && html`<p class="panel"><span><${Badge} kind="warning">${t("cost.unpriced")}<//> ${t("cost.unpriced.advice", {names: report.unpriced.join(", ")})}${
      total.unknown_calls > 0 && ` ${t("cost.unknown", {calls: formatNumber(total.unknown_calls), tokens: formatNumber(total.unknown_tokens)})}`}</span></p>`}
    ${total.estimated_calls > 0 && html`<p class="detail">${t("cost.estimated", {count: formatNumber(total.estimated_calls)})}</p>`}
    <${Section} title=${t("cost.by.day")} detail=${isMoney ? t("cost.in.money") : t("cost.in.tokens")}>
      ${total.calls === 0 ? html`<${Empty}>${t("cost.none")}<//>` : html`<div class="panel">
        <${ColumnChart} label=${t("cost.chart", {from: report.since, to: report.until})} bars=${days.map((line) => ({
          key: line.group, value: measure(line), title: `${line.group}: ${formatMoney(line.cost_usd)}, ${t("cost.tokens.count", {count: formatNumber(tokensOf(line))})}`}))} />
        <div class="cost-axis"><span>${formatDay(report.since)}</span><span>${formatDay(report.until)}</span></div>
        <details><summary>${t("cost.as.table")}</summary>
          <${DataTable} label=${t("cost.by.day")} columns=${columns(t("cost.day"))} rows=${days.filter((line) => line.calls > 0).reverse()} rowKey=${(it) => it.group} /></details>
      </div>`}
    <//>`;
}

/** A day such as 2026-11-28 in the user's language. */
function formatDay(day) {
  return new Date(`${day}T00:00`).toLocaleDateString(language.value, {dateStyle: "medium"});
}

function Figure({title, value}) {
  return html`<div class="panel"><span class="detail">${title}</span><span class="number">${value}</span></div>`;
}

function Breakdown({by, query}) {
  const [isOpen, setOpen] = useState(false);
  const resource = useResource(`v1/cost?by=${by}&${query}`);
  const titles = {agent: t("cost.agent"), model: t("cost.model"), job: t("cost.job")};
  const headings = {agent: t("cost.by.agent"), model: t("cost.by.model"), job: t("cost.by.job")};
  const nobody = {agent: t("cost.no.agent"), model: t("cost.no.model"), job: t("cost.no.job")};
  const lines = resource.data?.lines ?? [];
  const measure = resource.data && measureOf(resource.data.total);
  const whole = lines.reduce((sum, line) => sum + measure(line), 0) || 1;
  const bar = {key: "share", title: t("cost.share"), render: (line) => html`<${ShareBar} share=${measure(line) / whole} />`};
  const [name, ...numbers] = columns(titles[by], nobody[by]);
  return html`<${Section} title=${headings[by]}>
    <${Waiting} resource=${resource} />
    ${resource.data && html`<${DataTable} label=${headings[by]} columns=${[name, bar, ...numbers]} rows=${isOpen ? lines : lines.slice(0, LINES)} rowKey=${(it) => it.group} />`}
    ${!isOpen && lines.length > LINES && html`<div class="log-more"><button onClick=${() => setOpen(true)}>${t("cost.more", {count: lines.length - LINES})}</button></div>`}
  <//>`;
}

function columns(title, nobody = "") {
  return [
    {key: "group", title, render: (line) => html`<span class="cost-name">${line.group ? showInvisible(line.group) : nobody}</span>`},
    {key: "calls", title: t("cost.calls"), align: "end", render: (line) => formatNumber(line.calls)},
    {key: "prompt", title: t("cost.prompt"), align: "end", render: (line) => formatNumber(line.prompt_tokens)},
    {key: "cached", title: t("cost.cached"), align: "end", render: (line) => formatNumber(line.cached_tokens)},
    {key: "output", title: t("cost.output"), align: "end", render: (line) => formatNumber(line.completion_tokens)},
    {key: "cost", title: t("cost.cost"), align: "end", render: (line) => (line.calls === line.unknown_calls ? t("cost.price.unknown") : formatMoney(line.cost_usd))},
  ];
}
