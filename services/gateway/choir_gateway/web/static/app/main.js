/* Start: texts, then the session by the link in the address or by the cookie, then the page. */
import {loadSession, session, signIn} from "./api.js";
import {html, render, signal} from "./html.js";
import {onOtherTab, recall} from "./settings.js";
import {Shell} from "./shell.js";
import {SignInPage} from "./sign-in.js";
import {loadTexts, t} from "./texts.js";
import {refreshConversations} from "../chat/conversations.js";

const problem = signal("");
const RETRY_MS = 2_000;

function App() {
  if (session.value === undefined) {
    return html`<main class="starting" aria-busy="true"><div class="pulse"></div><p>${problem.value}</p></main>`;
  }
  return session.value === null ? html`<${SignInPage} problem=${problem} />` : html`<${Shell} />`;
}

/** Return the token of a one-time link and remove it from the address, so that it is in no history. */
function takeLink() {
  const match = /^#link=([\w-]+)$/.exec(location.hash);
  if (match) history.replaceState(null, "", location.pathname + location.search + "#/");
  return match?.[1];
}

async function enter(link) {
  // somebody else's link must not replace the session of this browser unnoticed
  if (link && recall("key", "") && !confirm(t("signin.replace"))) link = undefined;
  if (link) {
    const hadSession = recall("key", "") !== "";
    try {
      await signIn({link});
      if (hadSession) location.reload(); // nothing of the session before stays in the page
      return;
    } catch (error) {
      problem.value = error.message;
    }
  }
  await repeat(loadSession, () => { problem.value = t("connection.waiting"); });
}

/** Do something again until it succeeds; `onFailure` is called after each failure. */
async function repeat(action, onFailure) {
  for (;;) {
    try {
      return await action();
    } catch {
      onFailure();
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function start() {
  const link = takeLink();
  // asked for beside the texts, since each is a wait for the server; what fails is asked for again below
  const isKnown = !link && recall("key", "") !== "";
  const first = isKnown && loadSession().catch(() => {});
  if (isKnown) refreshConversations();
  await repeat(() => loadTexts(), () => {});
  render(html`<${App} />`, document.getElementById("app"));
  await first;
  if (session.value === undefined) await enter(link);
  onOtherTab("key", () => location.reload()); // somebody signed in or out there
  addEventListener("hashchange", async () => {
    const again = takeLink();
    if (again) await enter(again);
  });
}

start();
