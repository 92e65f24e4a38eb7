/* Summaries of periods on a calendar: a year with its months, a month with its weeks and days. */
import {html} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {language, t} from "../app/texts.js";
import {Section, Waiting} from "../cockpit/kit.js";
import {PeriodSummary} from "./period-summary.js";
import {agentPath} from "./paths.js";
import {grainOf, monthOf, monthsOf, neighbour, rangeOf, today, weeksOf, yearOf} from "./periods.js";
import {usePages} from "./parts.js";

const MAX_PAGE = 200;

export function CalendarTab({agent, parts}) {
  const chosen = grainOf(parts[0] ?? "") ? parts[0] : today().slice(0, 7);
  const month = monthOf(chosen);
  const summaries = useSummaries(agent, month ?? yearOf(chosen), month ? ["month", "week", "day"] : ["year", "quarter", "month"]);
  const address = (period) => addressOf("memory", agent, "calendar", period);
  const unit = month ?? yearOf(chosen);
  return html`<div class="memory-calendar">
    <section class="section" aria-label=${t("memory.tab.calendar")}>
      <div class="section-head memory-calendar-head">
        <a href=${address(neighbour(unit, -1))} aria-label=${t("memory.calendar.before")}>←</a>
        <h2>${month ? html`<a href=${address(month)}>${monthName(month, {month: "long"})}</a>${" "}` : ""}<a href=${address(yearOf(chosen))}>${yearOf(chosen)}</a></h2>
        <a href=${address(neighbour(unit, 1))} aria-label=${t("memory.calendar.after")}>→</a>
        <a class="memory-open" href=${address(today())}>${t("day.today")}</a></div>
      ${month ? html`<${Month} month=${month} found=${summaries.found} chosen=${chosen} address=${address} />`
        : html`<${Year} year=${yearOf(chosen)} found=${summaries.found} chosen=${chosen} address=${address} />`}
      ${summaries.resources.map((it) => it.error && html`<${Waiting} resource=${it} />`)}
      <p class="detail">${t("memory.calendar.legend")}</p>
    </section>
    <${Section} title=${periodName(chosen)} detail=${t("memory.calendar.utc")}>
      <${PeriodSummary} key=${chosen} agent=${agent} period=${chosen} items=${summaries.found.get(chosen) ?? []} isLoading=${summaries.isLoading} /><//>
  </div>`;
}

/** The summaries of a year or month by period; several people can have one each of the same period. */
function useSummaries(agent, unit, grains) {
  const {since, until} = rangeOf(unit);
  const path = agentPath(agent, "memory", "documents");
  const [first, second, third] = grains; // always three: hooks are called in the same order
  const pages = [useGrain(path, first, since, until), useGrain(path, second, since, until), useGrain(path, third, since, until)];
  const found = new Map();
  for (const item of pages.flatMap((it) => it.items)) found.set(item.period, [...(found.get(item.period) ?? []), item]);
  return {found, resources: pages.map((it) => it.first), isLoading: pages.some((it) => it.first.isLoading)};
}

function useGrain(path, grain, since, until) {
  return usePages(path, {store: "session", grain, since, until, limit: MAX_PAGE});
}

function Year({year, found, chosen, address}) {
  const months = monthsOf(year);
  return html`<div class="memory-year">${[1, 2, 3, 4].map((quarter) => html`<div class="memory-quarter" key=${quarter}>
    <${Cell} period=${`${year}-Q${quarter}`} found=${found} chosen=${chosen} address=${address} text=${`Q${quarter}`} />
    ${months.slice(3 * quarter - 3, 3 * quarter).map((it) => html`<${Cell} key=${it} period=${it} found=${found} chosen=${chosen}
      address=${address} text=${monthName(it, {month: "short"})} />`)}</div>`)}</div>`;
}

function Month({month, found, chosen, address}) {
  const weeks = weeksOf(month);
  const names = Array.from({length: 7}, (_, index) => new Date(Date.UTC(2024, 0, 1 + index)) // a Monday
    .toLocaleDateString(language.value, {weekday: "short", timeZone: "UTC"}));
  return html`<table class="memory-month"><caption class="hidden">${periodName(month)}</caption>
    <thead><tr><th scope="col"><span class="hidden">${t("memory.grain.week")}</span></th>${names.map((it) => html`<th key=${it} scope="col">${it}</th>`)}</tr></thead>
    <tbody>${weeks.map(({week, days}) => html`<tr key=${week}>
      <th scope="row"><${Cell} period=${week} found=${found} chosen=${chosen} address=${address} text=${t("memory.calendar.week.short", {week: week.slice(6)})} /></th>
      ${days.map((day, index) => html`<td key=${index}>${day && html`<${Cell} period=${day} found=${found} chosen=${chosen}
        address=${address} text=${Number(day.slice(8))} />`}</td>`)}</tr>`)}</tbody></table>`;
}

/** A period as a link; those with a summary are marked. */
function Cell({period, found, chosen, address, text}) {
  const has = found.has(period);
  return html`<a class="memory-cell" href=${address(period)} data-has=${has ? "yes" : "no"} aria-current=${period === chosen ? "date" : undefined}>
    <span aria-hidden="true">${text}</span><span class="hidden">${periodName(period)}${has && `, ${t("memory.calendar.has")}`}</span></a>`;
}

function monthName(month, style) {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString(language.value, {...style, timeZone: "UTC"});
}

export function periodName(period) {
  switch (grainOf(period)) {
    case "day": return new Date(`${period}T00:00:00Z`).toLocaleDateString(language.value, {dateStyle: "full", timeZone: "UTC"});
    case "week": return t("memory.calendar.week", {week: period.slice(6), year: period.slice(0, 4)});
    case "month": return monthName(period, {month: "long", year: "numeric"});
    case "quarter": return t("memory.calendar.quarter", {quarter: period.slice(6), year: period.slice(0, 4)});
    default: return period;
  }
}
