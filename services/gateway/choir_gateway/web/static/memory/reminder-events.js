/* Reminders of a session from its log, newest first. */
import {get} from "../app/api.js";
import {useEffect, useState} from "../app/html.js";
import {keepTrying} from "../cockpit/resource.js";
import {withQuery} from "./paths.js";

const PAGE = 1_000;
const PAGES_AT_ONCE = 5;

/** Read the log; return `{items, hasMore, isLoading, error, loadNext}`. */
export function useReminders(session) {
  const [state, setState] = useState({items: [], messages: new Map(), after: 0, isLoading: true, error: null});

  async function load(from) {
    let {items, messages, after} = from;
    for (let page = 0; page < PAGES_AT_ONCE && after !== null; page += 1) {
      const found = await get(withQuery(`v1/sessions/${encodeURIComponent(session)}/events`, {after, limit: PAGE}));
      ({items, messages} = collect(found.items, items, messages));
      after = found.next;
    }
    return {items, messages, after, isLoading: false, error: null};
  }

  useEffect(() => {
    let isCurrent = true;
    keepTrying(() => load(state), {
      isWanted: () => isCurrent,
      onFailure: (error) => setState((old) => ({...old, isLoading: false, error})),
    }).then((loaded) => { if (isCurrent && loaded) setState(loaded); });
    return () => { isCurrent = false; };
  }, [session]);

  return {...state, hasMore: state.after !== null && !state.isLoading && !state.error, loadNext: async () => setState(await load(state))};
}

/** Add the reminders of some events; the message of a turn may be in an earlier page. */
export function collect(events, items, messages) {
  const texts = new Map(messages);
  const added = [];
  for (const event of events) {
    const {payload} = event;
    if (event.type === "user_msg") texts.set(payload.turn_id, payload.text);
    if (event.type !== "reminded") continue;
    added.push({
      rev: event.rev, at: event.at, text: texts.get(payload.turn_id) ?? "",
      reminders: payload.reminders, receipts: payload.receipts ?? [], collections: payload.collections ?? [],
    });
  }
  return {items: [...added.reverse(), ...items], messages: texts};
}
