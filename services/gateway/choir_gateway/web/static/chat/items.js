/* What is shown of a message; a changed message is a new object. Pure.
 *  @typedef {{id: string, side: "user"|"agent"|"local", text: string, at: string, kind: string, files: object[],
 *    buttons: object[], key: ?string, inboxId: ?string, outboxId: ?number, edits: ?string, answers: ?string,
 *    state: string}} Item */

export function emptyItem() {
  return {
    kind: "", files: [], buttons: [], key: null, inboxId: null, outboxId: null, edits: null, answers: null,
    state: "stored", problem: "",
  };
}

/** Return the item of an entry of the history. */
export function itemOf({incoming, outgoing}) {
  if (incoming) {
    return {
      ...emptyItem(), id: `i:${incoming.inbox_id}`, side: "user", text: incoming.text, at: incoming.at,
      files: incoming.attachments, key: incoming.key, inboxId: incoming.inbox_id, edits: incoming.edits,
    };
  }
  return {
    ...emptyItem(), id: `o:${outgoing.outbox_id}`, side: "agent", text: outgoing.text, at: outgoing.at,
    kind: outgoing.kind, files: outgoing.attachments, buttons: outgoing.buttons, outboxId: outgoing.outbox_id,
    sender: outgoing.agent_id, answers: outgoing.answers,
  };
}

/** Return messages with others between them, by time; those that are not sent yet come last. */
export function insertByTime(items, added) {
  const all = [...items];
  for (const item of added) {
    const next = item.state === "stored" ? all.findIndex((it) => Date.parse(it.at) > Date.parse(item.at)) : -1;
    all.splice(next >= 0 ? next : all.length, 0, item);
  }
  return all;
}

/** Return a text of this page only, such as the result of a command. */
export function localItem(id, text, at = new Date().toISOString()) {
  return {...emptyItem(), id, side: "local", text, at};
}
