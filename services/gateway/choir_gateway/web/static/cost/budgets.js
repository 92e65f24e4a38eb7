/* Budgets in money and what is left of them, and what is left of the limits of running work. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";
import {formatDuration, formatMoney, formatNumber} from "../cockpit/formats.js";
import {DataTable, Empty, Section, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {stateName} from "../now/lanes.js";
import {ShareBar} from "./charts.js";
import {budgetsOf, dayOf, leftOf, moneyLimits, sinceDay, spentOf} from "./sums.js";

const LONGEST_MONTH = 32; // days, with one more for time zones
const OF_ALL = ["total_usd_per_day", "total_usd_per_month"];
const OF_AGENT = ["usd_per_day", "usd_per_month"];
const OF_WORK = ["usd_per_call", "usd_per_job", "usd_per_session"];

export function Budgets() {
  const view = useResource("v1/config");
  const status = useResource("v1/status", {everyMs: IDLE_MS});
  const config = view.data?.config;
  return html`<${Waiting} resource=${view} />
    ${config && html`<${Section} title=${t("cost.budgets.money")} detail=${t("cost.budgets.detail")}><${MoneyBudgets} config=${config} /><//>`}
    <${Section} title=${t("cost.work")} detail=${t("cost.work.detail")}>
      <${Waiting} resource=${status} />
      ${status.data && html`<${RunningWork} agents=${status.data.agents} />`}
    <//>`;
}

function MoneyBudgets({config}) {
  const totals = moneyLimits(config.budgets ?? {}, OF_ALL);
  const agents = Object.keys(config.agents ?? {}).sort().map((agent) => {
    const budgets = budgetsOf(config, agent);
    return {agent, zone: config.agents[agent].timezone ?? undefined, limits: moneyLimits(budgets, OF_AGENT), others: moneyLimits(budgets, OF_WORK)};
  }).filter((it) => it.limits.length + it.others.length > 0);
  if (!totals.length && !agents.length) return html`<${Empty}>${t("cost.budgets.none")}<//>`;
  return html`<div class="cards">
    ${totals.length > 0 && html`<${BudgetCard} title=${t("cost.all.agents")} query="" limits=${totals} others=${[]} />`}
    ${agents.map(({agent, zone, limits, others}) => html`<${BudgetCard} key=${agent} title=${agent} limits=${limits} others=${others}
      query=${`&agent=${encodeURIComponent(agent)}${zone ? `&until=${dayOf(Date.now(), zone)}` : ""}`} />`)}
  </div>`;
}

function BudgetCard({title, query, limits, others}) {
  // the report's last day is today in the time zone of the budget
  const report = useResource(limits.length ? `v1/cost?by=day&since=${sinceDay(LONGEST_MONTH)}${query}` : null);
  const spent = report.data && spentOf(report.data);
  return html`<section class="panel"><h3>${title}</h3>
    <${Waiting} resource=${report} />
    ${spent && limits.map(({name, period, limit}) => {
      const {left, share, kind} = leftOf(limit, spent[period]);
      return html`<div key=${name} class="cost-budget" data-budget=${name}>
        <p><strong>${t("cost.left", {left: formatMoney(left)})}</strong> <span class="detail">${t(`cost.budget.${period}`, {spent: formatMoney(spent[period]), limit: formatMoney(limit)})}</span></p>
        <${ShareBar} share=${share} kind=${kind} isWide />
        ${kind === "bad" && html`<p class="problem">${t("cost.budget.used")}</p>`}</div>`;
    })}
    ${others.map(({name, limit}) => html`<p key=${name} class="detail">${t(`cost.limit.${name}`, {limit: formatMoney(limit)})}</p>`)}
  </section>`;
}

function RunningWork({agents}) {
  const lanes = agents.flatMap((agent) => agent.lanes.map((lane) => ({...lane, agent: agent.agent_id})));
  if (!lanes.length) return html`<${Empty}>${t("cost.work.none")}<//>`;
  const left = (lane) => Object.entries(lane.budget_remaining).map(([name, count]) => t(`cost.left.${name}`, {
    count: name.endsWith("_ms") ? formatDuration(count) : formatNumber(count),
  })).join(", ");
  return html`<${DataTable} label=${t("cost.work")} rows=${lanes} rowKey=${(it) => `${it.agent} ${it.lane}`} columns=${[
    {key: "agent", title: t("cost.agent")},
    {key: "lane", title: t("log.lane")},
    {key: "state", title: t("cost.state"), render: (lane) => t(`now.state.${stateName(lane.state)}`)},
    {key: "left", title: t("cost.budget.left"), render: left},
  ]} />`;
}
