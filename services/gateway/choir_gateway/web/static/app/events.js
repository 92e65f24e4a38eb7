/* Server-sent events over fetch: resumes after the last id, and reconnects by itself. */
import {BASE, ownHeaders, session} from "./api.js";

const SILENCE_MS = 40_000; // the server sends a keepalive every 15 s
const LONGEST_PAUSE_MS = 10_000;

/** Follow an event stream until `stop` is called. */
export class EventFollower {
  constructor(path, {lastId, onEvent, onState}) {
    this.path = path;
    this.lastId = lastId;
    this.onEvent = onEvent;
    this.onState = onState;
    this.failures = 0;
    this.stopped = false;
    this.wake = () => this.retryNow?.();
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
    this.run();
  }

  stop() {
    this.stopped = true;
    this.abort?.abort();
    this.retryNow?.();
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
  }

  async run() {
    while (!this.stopped) {
      try {
        await this.readOnce();
      } catch {
        // the network or the server is away
      }
      if (this.stopped || session.value === null) return;
      this.onState(false);
      this.failures += 1;
      const pause = Math.min(LONGEST_PAUSE_MS, 250 * 2 ** this.failures) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => {
        this.retryNow = resolve;
        setTimeout(resolve, pause);
      });
    }
  }

  async readOnce() {
    this.abort = new AbortController();
    const response = await fetch(BASE + this.path, {
      headers: {...ownHeaders(), Accept: "text/event-stream", "Last-Event-ID": String(this.lastId)},
      credentials: "same-origin",
      cache: "no-store",
      signal: this.abort.signal,
    });
    if (response.status === 401) session.value = null;
    if (!response.ok) return;
    this.failures = 0;
    this.onState(true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (!this.stopped) {
      const timer = setTimeout(() => this.abort.abort(), SILENCE_MS);
      const {done, value} = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.take(block);
    }
  }

  take(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const at = line.indexOf(":");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
    }
    if (fields.data === undefined) return;
    this.onEvent(fields.event, JSON.parse(fields.data));
    if (fields.id) this.lastId = Number(fields.id);
  }
}
