/* The log: the list of sessions, and the timeline of one of them (`#/log/SESSION`, `#/log/SESSION/REVISION`). */
import {html} from "../app/html.js";
import {SessionList} from "./session-list.js";
import {SessionPage} from "./session-page.js";

export function Page({parts: [id, rev]}) {
  return id ? html`<${SessionPage} key=${id} id=${id} rev=${Number(rev) || null} />` : html`<${SessionList} />`;
}
