/* Loads the page again if one of its files did not arrive: browsers ask for a module only once. Not a module itself. */
(() => {
  const FIRST_PAUSE_MS = 1_000;
  const LONGEST_PAUSE_MS = 15_000;
  const COUNT = "choir:reloads";
  let isWaiting = false;

  addEventListener("error", (event) => {
    const isFile = event.target instanceof HTMLScriptElement || event.target instanceof HTMLLinkElement;
    if (!isFile || isWaiting) return;
    isWaiting = true;
    const count = Number(sessionStorage.getItem(COUNT)) || 0;
    sessionStorage.setItem(COUNT, String(count + 1));
    reload(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** count));
    addEventListener("DOMContentLoaded", () => {
      document.getElementById("starting").textContent = "Choir does not answer yet. Trying again…";
    });
  }, true);
  addEventListener("load", () => { if (!isWaiting) sessionStorage.removeItem(COUNT); });

  async function reload(pause) {
    let answer;
    do {
      await new Promise((resolve) => setTimeout(resolve, pause));
      // without an answer the browser would show its own page, which does not try again
      answer = await fetch(location.pathname, {cache: "no-store"}).catch(() => null);
    } while (!answer?.ok);
    location.reload();
  }
})();
