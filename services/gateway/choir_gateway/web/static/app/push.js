/* Notifications while no page is open, by the push service of the browser's vendor; and which page is in view. */
import {BASE, send, session} from "./api.js";
import {areNotificationsOn, CAN_NOTIFY, isPushOn, switchNotifications} from "./notifications.js";
import {remember} from "./settings.js";
import {language, LANGUAGES} from "./texts.js";

const PATH = "v1/web/session";
const REPORT_MS = 60_000; // control counts a page as seen for 90 seconds
const IN_USE_MS = 5 * 60_000; // nobody is in front of a page that was not touched for so long

export const CAN_PUSH = CAN_NOTIFY && "serviceWorker" in navigator && "PushManager" in globalThis;

/* The policy of the page allows scripts from addresses of this kind only, and nobody can make a second one. */
const addresses = globalThis.trustedTypes?.createPolicy("service-worker", {
  createScriptURL: (name) => workerAddress(name),
});

function workerAddress(name) {
  return `${BASE}web/service-worker.js?language=${name in LANGUAGES ? name : "en"}`;
}

async function register() {
  const name = language.value;
  const address = addresses ? addresses.createScriptURL(name) : workerAddress(name);
  await navigator.serviceWorker.register(address, {scope: `${BASE}web/`});
  return navigator.serviceWorker.ready;
}

/** Return the registration of this page, or undefined. */
async function registration() {
  return CAN_PUSH ? navigator.serviceWorker.getRegistration(`${BASE}web/`) : undefined;
}

/** Switch push on or off; return whether the browser allows notifications. Throws if it does not work. */
export async function switchPush(isOn) {
  if (!isOn) {
    await forgetPush();
    await send("DELETE", `${PATH}/push`);
    return true;
  }
  if (!(await switchNotifications(true))) return false;
  await subscribe();
  isPushOn.value = true;
  remember("push", true);
  return true;
}

/** Let this browser take no more messages; the push service then says so to control, too. */
export async function forgetPush() {
  isPushOn.value = false;
  remember("push", null);
  const subscription = await (await registration())?.pushManager.getSubscription().catch(() => null);
  await subscription?.unsubscribe().catch(() => false);
}

async function subscribe() {
  const {pushManager} = await register();
  const {public_key: key} = await (await send("GET", `${PATH}/push`)).json();
  const options = {userVisibleOnly: true, applicationServerKey: bytesOf(key)};
  let subscription;
  try {
    subscription = await pushManager.subscribe(options);
  } catch (error) {
    if (error.name !== "InvalidStateError") throw error;
    // of an earlier Choir at this address, with another key
    await (await pushManager.getSubscription())?.unsubscribe();
    subscription = await pushManager.subscribe(options);
  }
  const {endpoint, keys} = subscription.toJSON();
  await send("PUT", `${PATH}/push`, {json: {endpoint, p256dh: keys.p256dh, auth: keys.auth}});
}

function bytesOf(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
}

/** Keep the subscription up to date, open what is clicked, and report while the page is in view; return a stop. */
export function startPush() {
  // browsers renew subscriptions by themselves, and control may have dropped one that had ended
  if (isPushOn.value && areNotificationsOn.value) subscribe().catch(() => {});
  const stopOpening = CAN_PUSH ? openWhatIsClicked() : () => {};
  const stopReports = reportPresence();
  return () => { stopOpening(); stopReports(); };
}

function openWhatIsClicked() {
  const open = ({data}) => {
    if (typeof data?.open === "string") location.hash = data.open;
  };
  navigator.serviceWorker.addEventListener("message", open);
  navigator.serviceWorker.startMessages();
  return () => navigator.serviceWorker.removeEventListener("message", open);
}

/** Tell control whether somebody looks at this page, so that no other browser of the person is notified. */
function reportPresence() {
  const page = Math.random().toString(36).slice(2);
  const USES = ["pointerdown", "keydown", "wheel"];
  let usedAt = Date.now();
  let reportedAt = 0;
  const report = (visible) => {
    reportedAt = visible ? Date.now() : 0;
    if (session.value) send("PUT", `${PATH}/presence`, {json: {page, visible}, keepalive: true}).catch(() => {});
  };
  const look = () => {
    const isSeen = document.visibilityState === "visible" && Date.now() - usedAt < IN_USE_MS;
    if (isSeen && Date.now() - reportedAt >= REPORT_MS) report(true);
    else if (!isSeen && reportedAt) report(false);
  };
  const use = () => { usedAt = Date.now(); look(); };
  const show = () => { if (document.visibilityState === "visible") use(); else look(); };
  const leave = () => { if (reportedAt) report(false); };
  USES.forEach((name) => addEventListener(name, use, {passive: true}));
  document.addEventListener("visibilitychange", show);
  addEventListener("pagehide", leave);
  const timer = setInterval(look, REPORT_MS);
  show();
  return () => {
    clearInterval(timer);
    USES.forEach((name) => removeEventListener(name, use));
    document.removeEventListener("visibilitychange", show);
    removeEventListener("pagehide", leave);
  };
}
