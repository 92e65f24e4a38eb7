/* The event streams of running sessions, from which a page learns that something changed. */
import {get} from "../app/api.js";
import {EventFollower} from "../app/events.js";
import {useEffect, useRef} from "../app/html.js";

// Browsers open six connections to a host, and all tabs share them.
const MAX_STREAMS = 3;
const RETRY_MS = 15_000;

/** Follow the logs of sessions while the page is looked at; `onEvent(sessionId, type, event)` gets each event.

    A stream begins with the newest `backlog` events. More than `MAX_STREAMS` sessions: the first ones. */
export function useSessionStreams(sessionIds, onEvent, {backlog = 0} = {}) {
  const receiver = useRef(onEvent);
  receiver.current = onEvent;
  const followed = sessionIds.slice(0, MAX_STREAMS);
  useEffect(() => {
    const streams = followed.map((id) => new SessionStream(id, backlog, receiver));
    const update = () => streams.forEach((it) => it.update());
    update();
    document.addEventListener("visibilitychange", update);
    return () => {
      document.removeEventListener("visibilitychange", update);
      streams.forEach((it) => it.close());
    };
  }, [followed.join(" ")]);
}

class SessionStream {
  constructor(sessionId, backlog, receiver) {
    this.sessionId = sessionId;
    this.backlog = backlog;
    this.receiver = receiver;
    this.isClosed = false;
    this.lastId = null;
    this.follower = null;
  }

  async update() {
    if (this.isClosed || document.hidden) return this.pause();
    if (this.follower || this.isOpening) return undefined;
    this.isOpening = true;
    try {
      this.lastId ??= Math.max(0, (await get(`v1/sessions/${this.sessionId}`)).head_rev - this.backlog);
    } catch {
      setTimeout(() => this.update(), RETRY_MS); // the page's own requests show what is wrong
      return undefined;
    } finally {
      this.isOpening = false;
    }
    if (this.isClosed || document.hidden) return undefined;
    this.follower = new EventFollower(`v1/sessions/${this.sessionId}/events/stream`, {
      lastId: this.lastId,
      onEvent: (type, event) => this.take(type, event),
      onState: () => {},
    });
    return undefined;
  }

  take(type, event) {
    if (type === "end") this.close(); // the session is over; it would be asked for again and again
    this.receiver.current(this.sessionId, type, event);
  }

  pause() {
    if (!this.follower) return;
    this.lastId = this.follower.lastId;
    this.follower.stop();
    this.follower = null;
  }

  close() {
    this.isClosed = true;
    this.pause();
  }
}

/** Return a function that calls `action` a second after its first call, however often it is called. */
export function useOncePerSecond(action) {
  const newest = useRef(action);
  newest.current = action;
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useRef(() => {
    if (timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = 0;
      newest.current();
    }, 1_000);
  }).current;
}
