/* The log: the list of sessions, and the timeline of one of them (`#/log/SESSION`, `#/log/SESSION/REVISION`,
   `#/log/SESSION/CALL`). */
import {html} from "../app/html.js";
import {SessionList} from "./session-list.js";
import {SessionPage} from "./session-page.js";

export function Page({parts: [id, place]}) {
  return id ? html`<${SessionPage} key=${id} id=${id} place=${Number(place) || place || null} />` : html`<${SessionList} />`;
}
