/* Shows notifications that arrive by push, and opens their conversation. It handles no requests and stores nothing. */
const TEXTS = "{{texts}}";
const language = new URL(self.location.href).searchParams.get("language");
const texts = TEXTS[language] ?? TEXTS.en;
const MAX_NAME = 64; // characters

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show(event.data)));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.dm));
});

function read(data) {
  try {
    const {kind, agent, dm} = data.json();
    return {kind, agent: clean(agent), dm: clean(dm)};
  } catch {
    return {kind: "message", agent: "Choir", dm: ""};
  }
}

function clean(name) {
  return String(name ?? "").replace(/\p{C}/gu, "").slice(0, MAX_NAME);
}

async function show(data) {
  const {kind, agent, dm} = read(data);
  // browsers demand a notification for each push, unless a page is in view
  const pages = await self.clients.matchAll({type: "window", includeUncontrolled: true});
  if (pages.some((page) => page.focused && page.visibilityState === "visible")) return;
  const text = texts[kind === "request" ? "notification.request" : "notification.message"];
  await self.registration.showNotification(text.replace("{agent}", agent), {
    tag: `choir:${dm}`, renotify: true, data: {dm}, lang: language ?? "en",
  });
}

async function open(dm) {
  const hash = dm ? `#/chat/${encodeURIComponent(dm)}` : "#/";
  const pages = await self.clients.matchAll({type: "window", includeUncontrolled: true});
  const page = pages.find((it) => it.visibilityState === "visible") ?? pages[0];
  if (!page) return self.clients.openWindow(self.registration.scope + hash);
  page.postMessage({open: hash});
  return page.focus();
}
