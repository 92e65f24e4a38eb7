/* Requests to `/v1`. Addresses are relative, so that the page works below the prefix of a reverse proxy. */
import {signal} from "./html.js";
import {forgetAll, recall, remember} from "./settings.js";
import {language, originalProblem, t} from "./texts.js";

/** The address of the endpoint: the folder above the one of this page. */
export const BASE = new URL("..", new URL(".", location.href)).href;
const RELOAD_MS = 2_000;
const SENTENCES = "v1/web/session/sentences";
/** Who is signed in: undefined while unknown, null for nobody. */
export const session = signal(undefined);

/** Headers of each request. Browsers send a cookie to all ports of a host; only this page knows the key. */
export function ownHeaders() {
  const key = recall("key", "");
  return {"X-Choir-Language": language.value, ...(key && {"X-Choir-Page-Key": key})};
}

export class ApiError extends Error {
  constructor(status, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** Send a request; return the response. Throws ApiError. */
export async function send(method, path, {body, json, headers = {}, signal: abort, timeoutMs = 30_000, keepalive} = {}) {
  const all = {...ownHeaders(), ...headers};
  if (json !== undefined) all["Content-Type"] = "application/json";
  const limits = [abort, timeoutMs && AbortSignal.timeout(timeoutMs)].filter(Boolean);
  let response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers: all,
      body: json === undefined ? body : JSON.stringify(json),
      credentials: "same-origin",
      cache: "no-store",
      keepalive,
      signal: limits.length ? AbortSignal.any(limits) : undefined,
    });
  } catch {
    throw new ApiError(0, t("connection.none"), 0);
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  // another page of this browser may have signed in or out
  if (response.status === 401 && session.value) session.value = null;
  const text = await problemText(problem, response);
  throw new ApiError(response.status, text, Number(response.headers.get("retry-after")) || 0);
}

/** Return what a problem says in the language of the page. */
async function problemText(problem, response) {
  const detail = problem.detail ?? response.statusText;
  if (language.value === "en" || !detail || response.headers.get("content-language") === language.value) return detail;
  // what another service said is English; the request for its translation must not be translated in turn
  const known = response.url.endsWith(SENTENCES) ? undefined : (await translateAll([detail]))?.[0];
  return known === undefined || known === detail ? originalProblem(detail, problem.code) : known;
}

/** Return texts of Choir in the language of the page, in English where there is no translation; undefined without a server. */
export async function translateAll(english) {
  try {
    return (await post(SENTENCES, {language: language.value, texts: english})).texts;
  } catch {
    return undefined;
  }
}

/** Load the whole page again, once its server answers: a browser would show the answer of a proxy, or none. */
export async function reloadWhenUp() {
  for (;;) {
    const answer = await fetch(location.pathname, {cache: "no-store"}).catch(() => null);
    if (answer?.ok) break;
    await new Promise((resolve) => setTimeout(resolve, RELOAD_MS));
  }
  location.reload();
}

export async function get(path) {
  return (await send("GET", path)).json();
}

export async function post(path, json) {
  return (await send("POST", path, {json})).json();
}

/** Fetch a file and let the browser store it. */
export async function download(path, name) {
  const address = URL.createObjectURL(await (await send("GET", path, {timeoutMs: 0})).blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export async function loadSession() {
  if (!recall("key", "")) {
    session.value = null;
    return;
  }
  try {
    session.value = await get("v1/web/session");
  } catch (error) {
    if (error.status === 401 || error.status === 403) session.value = null;
    else throw error;
  }
}

export async function signIn(proof) {
  const {key, ...own} = await post("v1/web/session", {...proof, path: new URL(BASE).pathname});
  forgetAll(); // of whoever used this browser before
  remember("key", key);
  session.value = own;
}

export async function signOut() {
  await send("DELETE", `v1/web/session?path=${encodeURIComponent(new URL(BASE).pathname)}`);
  session.value = null;
}
