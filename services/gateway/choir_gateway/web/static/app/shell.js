/* The frame of all pages: sidebar, settings, and the current page. */
import {reloadWhenUp, session, signOut} from "./api.js";
import {effect, html, useEffect, useRef, useState} from "./html.js";
import {Icon} from "./icons.js";
import {pagesFor} from "./pages.js";
import {addressOf, place} from "./router.js";
import {forgetAll, recallInTab, rememberInTab, theme} from "./settings.js";
import {isSidebarOpen} from "./sidebar.js";
import {Logo} from "./sign-in.js";
import {LANGUAGES, language, loadTexts, t} from "./texts.js";
import {notify, toast} from "./toast.js";
import {areNotificationsOn, CAN_NOTIFY, isPushOn, switchNotifications} from "./notifications.js";
import {CAN_PUSH, forgetPush, startPush, switchPush} from "./push.js";
import {unreadCount} from "../chat/conversations.js";
import {ConversationList} from "../chat/list.js";

const RELOAD_MS = 2_000;
const MAX_RELOADS = 3;

// the title of the tab: the page, except for the chat, and how many messages are new
effect(() => {
  const page = session.value && currentPage(pagesFor(session.value.role));
  const name = page && page.name !== "chat" ? `${t(page.title)} – Choir` : "Choir";
  document.title = unreadCount.value ? `(${unreadCount.value}) ${name}` : name;
});

function currentPage(pages) {
  return pages.find((it) => it.name === place.value[0]) ?? pages[0];
}

export function Shell() {
  const pages = pagesFor(session.value.role);
  const page = currentPage(pages);
  const [shown, setShown] = useState(null);
  const parts = useRef([]);
  // until the modules of the next page are there, the one before stays as it is
  if (shown?.name === page.name) parts.current = place.value.slice(1);
  useEffect(() => {
    let isCurrent = true;
    page.load().then((view) => {
      rememberInTab("reloads", 0);
      if (isCurrent) setShown({name: page.name, View: view});
    }, () => {
      // a browser does not ask for a module again before the page is loaded again
      const reloads = recallInTab("reloads", 0);
      if (!isCurrent) return;
      if (reloads >= MAX_RELOADS) {
        setShown({name: page.name, View: Failed});
        return;
      }
      rememberInTab("reloads", reloads + 1);
      setTimeout(reloadWhenUp, RELOAD_MS);
    });
    return () => { isCurrent = false; };
  }, [page.name]);
  useEffect(startPush, []);
  useEffect(() => { isSidebarOpen.value = false; }, [place.value]);
  useEffect(() => {
    const stops = pages.filter((it) => it.watch).map((it) => it.watch());
    return () => stops.forEach((stop) => stop());
  }, [session.value.role]);

  return html`<div class="shell" data-sidebar=${isSidebarOpen.value ? "open" : "closed"}>
    <a class="skip" href="#main" onClick=${skip}>${t("skip")}</a>
    <aside class="sidebar" id="sidebar" aria-label=${t("sidebar")}>
      <div class="brand"><${Logo} /><span>Choir</span></div>
      ${pages.length > 1 && html`<nav class="pages" aria-label=${t("pages")}>
        ${pages.map((it) => html`<a href=${addressOf(it.name)} aria-current=${it === page ? "page" : undefined}>
          <${Icon} name=${it.icon} />${t(it.title)}
          ${it.count?.value > 0 && html`<span class="count">${it.count.value}<span class="hidden"> ${t("page.waiting")}</span></span>`}</a>`)}
      </nav>`}
      <${ConversationList} />
      <${Settings} />
    </aside>
    <div class="backdrop" onClick=${() => { isSidebarOpen.value = false; }}></div>
    <main id="main" class="page" tabindex="-1" aria-busy=${shown?.name !== page.name}>${shown && html`<${shown.View} parts=${parts.current} />`}</main>
    <div class="toast" role="status" data-shown=${toast.value ? "yes" : "no"}>${toast.value?.text}</div>
  </div>`;
}

function Failed() {
  return html`<p class="problem empty" role="alert">${t("page.failed")}</p>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Settings() {
  const details = useRef();
  const name = session.value.person ?? t("operator");
  useEffect(() => {
    const close = (event) => {
      if (!details.current?.contains(event.target)) details.current?.removeAttribute("open");
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, []);

  async function leave() {
    try {
      await forgetPush();
      await signOut();
      forgetAll();
      location.reload(); // nothing of this person stays in the page
    } catch (error) {
      notify(error.message);
    }
  }

  async function changeNotifications(event) {
    const box = event.target;
    if (!(await switchNotifications(box.checked))) notify(t("settings.notifications.forbidden"));
    box.checked = areNotificationsOn.value;
    if (!areNotificationsOn.value && isPushOn.value) await changePush(false);
  }

  return html`<details class="settings" ref=${details}>
    <summary><span class="avatar" aria-hidden="true">${name.slice(0, 1).toUpperCase()}</span>
      <span class="who">${name}</span><${Icon} name="settings" /></summary>
    <div class="settings-menu">
      <label>${t("settings.theme")}
        <select value=${theme.value} onChange=${(event) => { theme.value = event.target.value; }}>
          ${["auto", "light", "dark"].map((it) => html`<option value=${it} selected=${it === theme.value}>${t(`theme.${it}`)}</option>`)}
        </select></label>
      <label>${t("settings.language")}
        <select onChange=${(event) => loadTexts(event.target.value)}>
          ${Object.entries(LANGUAGES).map(([code, text]) => html`<option value=${code} selected=${code === language.value}>${text}</option>`)}
        </select></label>
      ${CAN_NOTIFY && html`<label>${t("settings.notifications")}
        <input type="checkbox" checked=${areNotificationsOn.value} onChange=${changeNotifications} /></label>`}
      ${CAN_PUSH && html`<${PushChoice} />`}
      <button onClick=${leave}>${t("settings.signout")}</button>
      <p class="version">Choir ${session.value.version}</p>
    </div>
  </details>`;
}

function PushChoice() {
  const [wanted, setWanted] = useState(null); // while the push service is asked, which may take seconds

  async function change(event) {
    setWanted(event.target.checked);
    await changePush(event.target.checked);
    setWanted(null);
  }

  return html`<label title=${t("settings.push.hint")}>${t("settings.push")}
    <input type="checkbox" checked=${wanted ?? isPushOn.value} disabled=${wanted !== null} onChange=${change} /></label>`;
}

async function changePush(isOn) {
  try {
    if (!(await switchPush(isOn))) notify(t("settings.notifications.forbidden"));
  } catch (error) {
    notify(t("settings.push.failed", {problem: error.message}));
  }
}
