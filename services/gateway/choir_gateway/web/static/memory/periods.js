/* Periods of summaries, as the server names them (2026, 2026-Q2, 2026-05, 2026-W22, 2026-05-31), in UTC: pure. */
const DAY_MS = 864e5;

/** The grain of a period, or null for what is none. */
export function grainOf(period) {
  if (/^[1-9]\d{3}$/.test(period)) return "year";
  if (/^\d{4}-Q[1-4]$/.test(period)) return "quarter";
  if (/^\d{4}-(0[1-9]|1[0-2])$/.test(period)) return "month";
  if (/^\d{4}-W[0-5]\d$/.test(period)) return "week";
  return /^\d{4}-\d\d-\d\d$/.test(period) && !Number.isNaN(Date.parse(`${period}T00:00:00Z`)) ? "day" : null;
}

export function today() {
  return new Date().toISOString().slice(0, 10);
}

/** The month that the calendar shows for a period; null for a year or quarter. */
export function monthOf(period) {
  switch (grainOf(period)) {
    case "month": return period;
    case "day": return period.slice(0, 7);
    case "week": return shift(mondayOf(period), 3).slice(0, 7); // of its Thursday
    default: return null;
  }
}

export function yearOf(period) {
  return (monthOf(period) ?? period).slice(0, 4);
}

export function monthsOf(year) {
  return Array.from({length: 12}, (_, index) => `${year}-${String(index + 1).padStart(2, "0")}`);
}

/** The weeks of a month from Monday to Sunday: `{week, days}`; days of other months are null. */
export function weeksOf(month) {
  const weeks = [];
  const first = new Date(`${month}-01T00:00:00Z`);
  let monday = shift(`${month}-01`, -((first.getUTCDay() + 6) % 7));
  do {
    const days = Array.from({length: 7}, (_, index) => shift(monday, index));
    weeks.push({week: weekOf(monday), days: days.map((it) => (it.startsWith(month) ? it : null))});
    monday = shift(monday, 7);
  } while (monday.startsWith(month));
  return weeks;
}

/** The ISO week of a day. */
export function weekOf(day) {
  const thursday = shift(day, 3 - ((new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7));
  const year = thursday.slice(0, 4);
  const number = Math.floor((Date.parse(thursday) - Date.parse(`${year}-01-01`)) / DAY_MS / 7) + 1;
  return `${year}-W${String(number).padStart(2, "0")}`;
}

function mondayOf(week) {
  const [year, number] = week.split("-W");
  const fourth = `${year}-01-04`; // always in week 1
  const monday = shift(fourth, -((new Date(`${fourth}T00:00:00Z`).getUTCDay() + 6) % 7));
  return shift(monday, 7 * (number - 1));
}

export function shift(day, days) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** The same grain before or after: only years and months have buttons for it. */
export function neighbour(period, step) {
  if (grainOf(period) === "year") return String(Number(period) + step).padStart(4, "0");
  const [year, month] = period.split("-").map(Number);
  return new Date(Date.UTC(year, month - 1 + step, 1)).toISOString().slice(0, 7);
}

/** First and last day of a year or month, with a margin for weeks that begin or end outside. */
export function rangeOf(period) {
  const isYear = grainOf(period) === "year";
  const first = isYear ? `${period}-01-01` : `${period}-01`;
  const next = isYear ? `${neighbour(period, 1)}-01-01` : `${neighbour(period, 1)}-01`;
  return {since: shift(first, -7), until: shift(next, 6)};
}
