/* The state of one conversation: history, event stream, draft, and messages that wait to be sent.

   A message keeps its key until the server has stored it, also over a reload: repeating it is safe. */
import {ApiError, get, post} from "../app/api.js";
import {EventFollower} from "../app/events.js";
import {batch, signal} from "../app/html.js";
import {recall, remember} from "../app/settings.js";
import {showNotification} from "../app/notifications.js";
import {t} from "../app/texts.js";
import {countMissed, lastSeen} from "./conversations.js";
import {emptyItem, insertByTime, itemOf, localItem} from "./items.js";
import {newKey} from "./keys.js";
import {extendEarlier, extendLater, loadDay} from "./past.js";
import {keepResult, withResults} from "./results.js";

const PAGE = 50;
const DRAFT_LASTS_S = 60;
const LONGEST_PAUSE_MS = 15_000;

export class Conversation {
  constructor(dm) {
    this.dm = dm;
    this.path = `v1/dms/${encodeURIComponent(dm)}`;
    this.items = signal([]);
    this.draft = signal("");
    this.isWorking = signal(false);
    this.cards = signal(new Map());
    this.isConnected = signal(true);
    this.isLoaded = signal(false);
    this.problem = signal("");
    this.earlier = null;
    this.last = 0;
    this.pressed = signal(new Set());
    /** The message whose correction is being written. */
    this.editing = signal(null);
    /** The part that is shown in place of the end, see `past.js`. */
    this.past = signal(null);
    /** The mark of new messages is after this one. */
    this.readUpTo = signal(Infinity);
  }

  open() {
    this.isClosed = false;
    this.load();
  }

  close() {
    this.isClosed = true;
    this.follower?.stop();
    clearTimeout(this.workTimer);
  }

  async load() {
    for (let pause = 500; !this.isClosed; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        const page = await get(`${this.path}/history?limit=${PAGE}`);
        if (this.isClosed) return;
        batch(() => {
          this.takePage(page);
          this.items.value = withResults(this.dm, this.items.value, page.earlier === null);
          const seen = lastSeen(this.dm);
          if (seen < page.last) this.readUpTo.value = seen;
        });
        this.earlier = page.earlier;
        this.last = page.last;
        batch(() => { this.isLoaded.value = true; this.problem.value = ""; });
        break;
      } catch (error) {
        this.problem.value = error.message;
        if (!(error instanceof ApiError) || !error.isTemporary) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    if (this.isClosed) return;
    this.follower = new EventFollower(`${this.path}/events`, {
      lastId: this.last,
      onEvent: (kind, data) => this.takeEvent(kind, data),
      onState: (isConnected) => this.takeState(isConnected),
    });
    for (const waiting of recall(`waiting:${this.dm}`, [])) {
      if (this.items.value.some((it) => it.key === waiting.key)) this.forgetWaiting(waiting.key);
      else this.deliver(waiting);
    }
  }

  /** Show the messages since a day in place of the newest; return whether there are any. */
  async jumpTo(day) {
    this.past.value = await loadDay(this.path, day);
    return this.past.value !== null;
  }

  /** Load the page after the part that is shown. */
  async loadLater() {
    await this.extendPast("later", extendLater);
  }

  async extendPast(side, extend) {
    const past = this.past.value;
    if (!past?.[side] || this.isExtending) return false;
    this.isExtending = true;
    try {
      const longer = await extend(this.path, past);
      if (this.past.value === past) this.past.value = longer;
      return true;
    } finally {
      this.isExtending = false;
    }
  }

  /** Load the page before the first message; return whether there was one. */
  async loadEarlier() {
    if (this.past.value) return this.extendPast("earlier", extendEarlier);
    if (!this.earlier || this.isLoadingEarlier) return false;
    this.isLoadingEarlier = true;
    try {
      const before = encodeURIComponent(this.earlier);
      const page = await get(`${this.path}/history?limit=${PAGE}&before=${before}`);
      const known = new Set(this.items.value.map((it) => it.id));
      const older = page.entries.map(itemOf).filter((it) => !known.has(it.id));
      this.earlier = page.earlier;
      this.items.value = [...older, ...this.items.value];
      return older.length > 0;
    } finally {
      this.isLoadingEarlier = false;
    }
  }

  async search(query) {
    const page = await get(`${this.path}/history?limit=100&q=${encodeURIComponent(query)}`);
    return page.entries.map(itemOf);
  }

  /** Put the newest page in the place of what is shown of it; keep what the server does not have. */
  takePage(page) {
    const fresh = page.entries.map(itemOf);
    const ids = new Set(fresh.map((it) => it.id));
    const keys = new Set(fresh.map((it) => it.key).filter(Boolean));
    const first = this.items.value.findIndex((it) => ids.has(it.id) || keys.has(it.key));
    const older = first < 0 ? [] : this.items.value.slice(0, first);
    const own = this.items.value.filter((it, n) => n >= first && !ids.has(it.id) && !keys.has(it.key));
    this.items.value = [...older, ...insertByTime(fresh, own)];
  }

  takeState(isConnected) {
    this.isConnected.value = isConnected;
    if (isConnected) this.resendNow?.();
  }

  takeEvent(kind, data) {
    if (kind === "message") this.takeMessage(data);
    else if (kind === "edit") this.takeEdit(data);
    else if (kind === "delta") this.takeDelta(data);
    else if (kind === "card") this.takeCard(data);
    else if (kind === "activity") this.takeActivity(data);
  }

  takeMessage(message) {
    const item = itemOf({outgoing: message});
    if (this.items.value.some((it) => it.id === item.id)) return;
    batch(() => {
      if (["answer", "report", "error"].includes(message.kind)) this.endWork();
      this.items.value = [...this.items.value, item];
      this.last = Math.max(this.last, message.outbox_id);
      if (!document.hasFocus()) this.takeMissed(message);
    });
    const isOwn = !message.answers || this.items.value.some((it) => it.inboxId === message.answers);
    if (!isOwn) this.refresh(); // the question was asked in another window
  }

  takeMissed(message) {
    if (this.readUpTo.value === Infinity) this.readUpTo.value = message.outbox_id - 1;
    countMissed(this.dm, message.outbox_id);
    const isRequest = message.buttons.length > 0;
    if (isRequest || ["answer", "report", "error"].includes(message.kind)) {
      const title = isRequest ? "notification.request" : "notification.message";
      showNotification(t(title, {agent: message.agent_id}), message.text, this.dm);
    }
  }

  /** Everything was seen. */
  clearMark() {
    this.readUpTo.value = Infinity;
  }

  takeEdit(message) {
    this.last = Math.max(this.last, message.outbox_id);
    this.change((it) => it.outboxId === message.edits.outbox_id, {text: message.text, buttons: message.buttons});
  }

  takeDelta({offset, text}) {
    // shown once a frame, however often parts arrive
    this.nextDraft = offset === 0 ? text : (this.nextDraft ?? this.draft.value) + text;
    this.work(DRAFT_LASTS_S);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.nextDraft !== null) this.draft.value = this.nextDraft;
    });
  }

  takeCard(card) {
    const cards = new Map(this.cards.value);
    if (card.done) {
      cards.delete(card.card_id);
      const id = `c:${card.card_id}`;
      this.items.value = [...this.items.value.filter((it) => it.id !== id), localItem(id, card.text)];
    } else cards.set(card.card_id, card.text);
    this.cards.value = cards;
  }

  takeActivity(activity) {
    if (activity.lasts_s === undefined) {
      this.endWork();
      return;
    }
    this.work(activity.lasts_s);
  }

  work(seconds) {
    this.isWorking.value = true;
    clearTimeout(this.workTimer);
    this.workTimer = setTimeout(() => this.endWork(), seconds * 1000);
  }

  endWork() {
    clearTimeout(this.workTimer);
    this.nextDraft = null;
    batch(() => { this.draft.value = ""; this.isWorking.value = false; });
  }

  async refresh() {
    try {
      this.takePage(await get(`${this.path}/history?limit=${PAGE}`));
    } catch {
      // the next message tries again
    }
  }

  /** Send a text with files that were uploaded before; `edits` is the key of the message that it corrects. */
  say(text, files = [], edits = null) {
    const message = {key: newKey(), text, files, edits, at: new Date().toISOString()};
    batch(() => { this.past.value = null; this.clearMark(); });
    remember(`waiting:${this.dm}`, [...recall(`waiting:${this.dm}`, []), message]);
    this.deliver(message);
  }

  stop() {
    return post(`${this.path}/messages`, {text: "/cancel", idempotency_key: newKey()});
  }

  retry(item) {
    this.items.value = this.items.value.filter((it) => it !== item);
    this.deliver({key: item.key, text: item.text, files: item.files, edits: item.edits, at: item.at});
  }

  discard(item) {
    this.forgetWaiting(item.key);
    this.items.value = this.items.value.filter((it) => it !== item);
  }

  async deliver(message) {
    const item = {
      ...emptyItem(), id: `k:${message.key}`, side: "user", text: message.text, at: message.at, key: message.key,
      files: message.files, edits: message.edits ?? null, state: "sending",
    };
    this.items.value = [...this.items.value, item];
    const body = {text: message.text, idempotency_key: message.key, files: message.files.map((it) => it.ref)};
    if (message.edits) body.edits = message.edits;
    for (let pause = 500; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        this.takeAccepted(message, await post(`${this.path}/messages`, body));
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || !error.isTemporary) {
          this.change((it) => it.key === message.key, {state: "failed", problem: error.message});
          return;
        }
        this.change((it) => it.key === message.key, {state: "waiting"});
        await new Promise((resolve) => {
          this.resendNow = resolve;
          setTimeout(resolve, Math.max(pause, error.retryAfter * 1000));
        });
      }
    }
  }

  takeAccepted(message, accepted) {
    this.forgetWaiting(message.key);
    const changes = {state: "stored", inboxId: accepted.inbox_id || null};
    this.change((it) => it.key === message.key, changes);
    if (accepted.note) {
      this.items.value = [...this.items.value, localItem(`n:${message.key}`, accepted.note)];
      if (accepted.command) keepResult(this.dm, message, accepted.note, Boolean(accepted.inbox_id));
    }
  }

  forgetWaiting(key) {
    remember(`waiting:${this.dm}`, recall(`waiting:${this.dm}`, []).filter((it) => it.key !== key));
  }

  /** Press a button below a message; return the text of the answer. */
  async press(item, button) {
    this.pressed.value = new Set(this.pressed.value).add(item.id);
    try {
      const body = {data: button.data, message_id: String(item.outboxId), idempotency_key: newKey()};
      return (await post(`${this.path}/press`, body)).answer;
    } catch (error) {
      return error.message || t("press.failed");
    } finally {
      const left = new Set(this.pressed.value);
      left.delete(item.id);
      this.pressed.value = left;
    }
  }

  change(isMeant, changes) {
    this.items.value = this.items.value.map((it) => (isMeant(it) ? {...it, ...changes} : it));
  }
}
