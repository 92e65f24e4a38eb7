/* The newest requests for a decision, pending ones first: for the sidebar's count, the list and the agents' page. */
import {get, session} from "../app/api.js";
import {computed, effect, signal} from "../app/html.js";
import {IDLE_MS, retryPause} from "../cockpit/resource.js";

const LIMIT = 100;
const SHOWN_MS = IDLE_MS; // events tell most changes at once
const BACKGROUND_MS = 2 * IDLE_MS;

export const requests = signal(null);
export const problem = signal(null);
export const pending = computed(() => (requests.value ?? []).filter((it) => it.status === "pending"));
export const pendingCount = computed(() => pending.value.length);

let isBusy = false;
let isAskedAgain = false;
let observers = 0; // pages that show requests now; without one, they are fetched less often
let askedAt = 0;
let failures = 0; // in a row
let retry;

/** Fetch them again; one request runs at a time. */
export async function refreshRequests() {
  if (isBusy) {
    isAskedAgain = true;
    return;
  }
  isBusy = true;
  clearTimeout(retry);
  askedAt = Date.now();
  try {
    requests.value = (await get(`v1/approvals?limit=${LIMIT}`)).items;
    problem.value = null;
    failures = 0;
  } catch (error) {
    problem.value = error;
    if (error.isTemporary) retry = setTimeout(refreshIfSeen, retryPause(failures += 1, error));
  }
  isBusy = false;
  if (isAskedAgain) {
    isAskedAgain = false;
    await refreshRequests();
  }
}

function refreshIfSeen() {
  if (!document.hidden) refreshRequests();
}

/** Keep the count in the sidebar current until the returned function is called. */
export function watchRequests() {
  const tick = () => {
    const isDue = Date.now() - askedAt > (observers > 0 ? SHOWN_MS : BACKGROUND_MS) - 1_000;
    if (!document.hidden && isDue) refreshRequests();
  };
  refreshRequests();
  const timer = setInterval(tick, IDLE_MS / 2);
  document.addEventListener("visibilitychange", refreshIfSeen);
  return () => {
    clearInterval(timer);
    clearTimeout(retry);
    document.removeEventListener("visibilitychange", refreshIfSeen);
  };
}

/** Keep all requests current until the returned function is called: a page shows them. */
export function observeRequests() {
  observers += 1;
  refreshRequests();
  return () => { observers -= 1; };
}

effect(() => {
  if (session.value === null) requests.value = null;
});
