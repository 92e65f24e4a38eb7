/* The user guides of this installation: a list, and one to read. */
import {html, useEffect, useState} from "../app/html.js";
import {Markdown} from "../app/markdown.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {Section} from "../cockpit/kit.js";
import {GUIDES, prepareGuide} from "./guide-text.js";

const FOLDER = new URL("../docs/", import.meta.url);

export function GuidesTab({parts}) {
  const name = GUIDES.includes(parts[1]) ? parts[1] : undefined;
  return name === undefined ? html`<${GuideList} />` : html`<${Guide} key=${name} name=${name} />`;
}

/** A link to a guide. */
export function GuideLink({name}) {
  return html`<a href=${addressOf("setup", "guides", name)}>${name}.md</a>`;
}

function GuideList() {
  return html`<${Section} title=${t("setup.tab.guides")} detail=${t("setup.guides.about")}>
    <ul class="setup-guides">${GUIDES.map((it) => html`<li key=${it}><${GuideLink} name=${it} /></li>`)}</ul><//>`;
}

function Guide({name}) {
  const [text, setText] = useState("");
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    (async () => {
      const answer = await fetch(new URL(`${name}.md`, FOLDER)).catch(() => null);
      const read = answer?.ok ? await answer.text() : "";
      if (!isCurrent) return;
      setText(read && prepareGuide(read, location.href.split("#")[0]));
      setMissing(!read);
    })();
    return () => { isCurrent = false; };
  }, [name]);

  /** Links to other guides stay in this tab. */
  function follow(event) {
    const link = event.target.closest("a");
    if (!link || link.origin + link.pathname !== location.origin + location.pathname) return;
    event.preventDefault();
    location.hash = link.hash;
  }
  return html`<${Section} title=${html`<a href=${addressOf("setup", "guides")}>${t("setup.tab.guides")}</a> / ${name}.md`}>
    ${isMissing && html`<p class="problem" role="alert">${t("setup.guide.missing", {file: `docs/${name}.md`})}</p>`}
    <div class="setup-guide" lang="en" onClick=${follow}>${text && html`<${Markdown} text=${text} />`}</div><//>`;
}
