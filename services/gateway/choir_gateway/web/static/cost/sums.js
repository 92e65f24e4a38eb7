/* Sums of costs: days without calls, what bars measure, and what is left of a budget. Pure. */

const DAY_MS = 86_400_000;

/** Return a day as `2026-11-28`, in a time zone or the browser's own. */
export function dayOf(time, zone) {
  const parts = new Intl.DateTimeFormat("en-CA", {timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit"});
  return parts.format(time);
}

/** Return the first day of a period that ends today. */
export function sinceDay(days, now = Date.now()) {
  return dayOf(now - (days - 1) * DAY_MS);
}

/** Return a line for each day of a report, also for those without calls. */
export function fillDays(report) {
  const lines = new Map(report.lines.map((line) => [line.group, line]));
  const days = [];
  for (let at = Date.parse(report.since); at <= Date.parse(report.until); at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    days.push(lines.get(day) ?? {group: day, calls: 0, cost_usd: "0", unknown_calls: 0, prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0});
  }
  return days;
}

export function tokensOf(line) {
  return line.prompt_tokens + line.completion_tokens;
}

/** Return how bars are measured: by cost, or by tokens if nothing has a price. */
export function measureOf(total) {
  return Number(total.cost_usd) > 0 ? (line) => Number(line.cost_usd) : tokensOf;
}

/** Return `{day, month}`: what a report by day says about its last day and that day's month. */
export function spentOf(report) {
  const month = report.until.slice(0, 7);
  const spent = {day: 0, month: 0};
  for (const line of report.lines) {
    if (line.group.startsWith(month)) spent.month += Number(line.cost_usd);
    if (line.group === report.until) spent.day += Number(line.cost_usd);
  }
  return spent;
}

const PERIODS = {usd_per_day: "day", usd_per_month: "month", total_usd_per_day: "day", total_usd_per_month: "month"};

/** Return the limits in money of some budgets that have a period: `{name, period, limit}`. */
export function moneyLimits(budgets, names) {
  return names.filter((name) => budgets[name] !== null && budgets[name] !== undefined)
    .map((name) => ({name, period: PERIODS[name], limit: Number(budgets[name])}));
}

/** Return the budgets of an agent: its own ones before those of all agents. */
export function budgetsOf(config, agent) {
  const own = Object.entries(config.agents?.[agent]?.budgets ?? {}).filter(([, value]) => value !== null);
  return {...config.budgets, ...Object.fromEntries(own)};
}

/** Return what is left of a limit, the share that is spent, and how urgent that is. */
export function leftOf(limit, spent) {
  const left = Math.max(0, limit - spent);
  const share = limit > 0 ? Math.min(1, spent / limit) : 1;
  return {left, share, kind: share >= 1 ? "bad" : share >= 0.8 ? "warning" : "good"};
}
