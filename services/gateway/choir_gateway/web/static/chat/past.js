/* A part of a conversation that is not its end: the messages since a day, and more both ways. */
import {get} from "../app/api.js";
import {itemOf} from "./items.js";

const PAGE = 50;

/** Load the messages since a day such as 2026-05-03, in the time zone of the browser; null if there are none. */
export async function loadDay(path, day) {
  const at = new Date(`${day}T00:00`).toISOString();
  const page = await get(`${path}/history?limit=${PAGE}&at=${encodeURIComponent(at)}`);
  if (page.entries.length === 0) return null;
  return {day, items: page.entries.map(itemOf), earlier: page.earlier, later: page.later};
}

/** Return a part with the page before it. */
export async function extendEarlier(path, past) {
  const page = await get(`${path}/history?limit=${PAGE}&before=${encodeURIComponent(past.earlier)}`);
  return {...past, items: [...page.entries.map(itemOf), ...past.items], earlier: page.earlier};
}

/** Return a part with the page after it. */
export async function extendLater(path, past) {
  const page = await get(`${path}/history?limit=${PAGE}&after=${encodeURIComponent(past.later)}`);
  return {...past, items: [...past.items, ...page.entries.map(itemOf)], later: page.later};
}
