/* The events of one session: loaded in pages from the end, followed while it runs, and folded into a timeline. */
import {get} from "../app/api.js";
import {EventFollower} from "../app/events.js";
import {signal} from "../app/html.js";
import {keepTrying} from "../cockpit/resource.js";
import {Timeline} from "./timeline.js";

export const PAGE = 1_000;
const RENDER_MS = 1_000; // a session that works has hundreds of events a second
const LIVE = new Set(["starting", "active", "stopping", "crashed"]);

export function isLive(session) {
  return LIVE.has(session.status);
}

export class SessionLog {
  constructor(id) {
    this.id = id;
    this.events = [];
    this.waiting = []; // events that came since the last rendering
    this.timeline = new Timeline();
    this.version = signal(0); // rises with each change that is to be shown
    this.isConnected = signal(true);
    this.isLoading = signal(true);
    this.problem = signal(null);
    this.hasEnded = signal(false);
  }

  get firstRev() {
    return this.events[0]?.rev ?? 1;
  }

  get lastRev() {
    return this.events.at(-1)?.rev ?? 0;
  }

  /** Load the newest page, or the one from a revision on, and follow the session if it runs. */
  async open(session, fromRev) {
    const after = Math.max(0, Math.min(session.head_rev - PAGE, fromRev ? fromRev - PAGE / 2 : Infinity));
    await this.run(async () => {
      await this.readTo(Math.max(after, this.lastRev), session.head_rev);
      if (isLive(session)) this.follow();
    });
  }

  async readTo(after, head) {
    let next = after;
    while (!this.isClosed && next !== null && next < head) {
      const page = await this.read(next);
      this.append(page.items);
      next = page.next;
    }
  }

  /** Load the page before the first event, or with `all` everything before it. */
  async loadEarlier(all = false) {
    await this.run(async () => {
      const first = this.firstRev;
      const start = all ? 0 : Math.max(0, first - 1 - PAGE);
      const earlier = [];
      let next = start;
      while (!this.isClosed && next !== null && next < first - 1) {
        const page = await this.read(next);
        earlier.push(...page.items.filter((event) => event.rev < first));
        next = page.next;
      }
      this.events = [...earlier, ...this.events];
      this.timeline = new Timeline();
      this.timeline.addAll(this.events);
      this.version.value += 1;
    });
  }

  read(after) {
    return get(`v1/sessions/${encodeURIComponent(this.id)}/events?after=${after}&limit=${PAGE}`);
  }

  /** Load something, again after failures that may pass. */
  async run(task) {
    this.isLoading.value = true;
    const isDone = await keepTrying(() => task().then(() => true), {
      isWanted: () => !this.isClosed,
      onFailure: (error) => { this.problem.value = error; },
    });
    if (isDone) this.problem.value = null;
    this.isLoading.value = false;
  }

  follow() {
    if (this.isClosed) return;
    this.follower = new EventFollower(`v1/sessions/${encodeURIComponent(this.id)}/events/stream`, {
      lastId: this.lastRev,
      onEvent: (name, event) => (name === "end" ? this.finish() : this.take(event)),
      onState: (isConnected) => { this.isConnected.value = isConnected; },
    });
  }

  take(event) {
    this.waiting.push(event);
    this.timer ??= setTimeout(() => this.flush(), RENDER_MS);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const events = this.waiting;
    this.waiting = [];
    if (!this.isClosed) this.append(events);
  }

  finish() {
    this.follower.stop();
    this.flush();
    this.isConnected.value = true;
    this.hasEnded.value = true;
  }

  append(events) {
    const last = this.lastRev;
    // a stream that is resumed may repeat events
    const fresh = events.filter((event) => event.rev > last);
    if (!fresh.length) return;
    this.events.push(...fresh);
    this.timeline.addAll(fresh);
    this.version.value += 1;
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.follower?.stop();
  }
}
