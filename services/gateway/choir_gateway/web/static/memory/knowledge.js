/* Knowledge: facts, rules, notes and what else is not tied to a session; add to it. */
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {Field, Section} from "../cockpit/kit.js";
import {EditorDialog} from "./editor.js";
import {named} from "./labels.js";
import {DocumentList} from "./parts.js";
import {agentPath} from "./paths.js";
import {KINDS, TagError, readTags} from "./search-query.js";

const DEFAULT = {kind: "", key_prefix: "", since: "", until: "", min_trust: "", tags: "", hidden: false};

export function KnowledgeTab({agent, parts}) {
  const [fields, setFields] = useState({...DEFAULT, kind: KINDS.knowledge.includes(parts[0]) ? parts[0] : ""});
  const [problem, setProblem] = useState("");
  const [isAdding, setAdding] = useState(false);

  function change(event) {
    const form = new FormData(event.currentTarget);
    const next = Object.fromEntries(Object.keys(DEFAULT).map((name) => [name, (form.get(name) ?? "").trim()]));
    try {
      const tags = readTags(next.tags);
      setProblem("");
      setFields({...next, tags: Object.keys(tags).length ? JSON.stringify(tags) : "", hidden: form.has("hidden")});
    } catch (error) {
      if (!(error instanceof TagError)) throw error;
      setProblem(t("memory.tags.wrong", {tag: error.message}));
    }
  }

  const isFiltered = Object.entries(fields).some(([name, value]) => name !== "hidden" && value !== "");
  return html`<${Section} title=${t("memory.tab.knowledge")} detail=${t("memory.knowledge.about")}
      actions=${html`<button class="primary" onClick=${() => setAdding(true)}>${t("memory.add")}</button>`}>
    <form class="memory-search" onSubmit=${(event) => event.preventDefault()} onChange=${change}>
      <div class="toolbar">
        <select name="kind" aria-label=${t("memory.filter.kinds")}><option value="">${t("memory.kinds.all")}</option>
          ${KINDS.knowledge.map((it) => html`<option key=${it} value=${it} selected=${it === fields.kind}>${named("kind", it)}</option>`)}</select>
        <input class="grow" name="key_prefix" aria-label=${t("memory.filter.key_prefix")} placeholder=${t("memory.filter.key_prefix")} spellcheck=${false} />
        <label class="memory-check"><input type="checkbox" name="hidden" />${t("memory.filter.hidden")}</label>
      </div>
      <details class="memory-filters"><summary>${t("memory.filters")}</summary><div class="memory-fields">
        <${Field} label=${t("memory.filter.since")}><input type="date" name="since" /><//>
        <${Field} label=${t("memory.filter.until")}><input type="date" name="until" /><//>
        <${Field} label=${t("memory.filter.min_trust")} hint=${t("memory.filter.min_trust.hint")}><input type="number" name="min_trust" min="0" max="100" /><//>
        <${Field} label=${t("memory.filter.tags")} hint=${t("memory.filter.tags.hint")}><input name="tags" spellcheck=${false} /><//>
      </div></details>
    </form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <${DocumentList} agent=${agent} path=${agentPath(agent, "memory", "documents")} label=${t("memory.tab.knowledge")}
      params=${{store: "knowledge", ...fields}} empty=${t(isFiltered ? "memory.search.none" : "memory.knowledge.none")} />
    <${EditorDialog} isOpen=${isAdding} agent=${agent} onClose=${() => setAdding(false)}
      onSaved=${(id) => { location.hash = addressOf("memory", agent, "document", id); }} />
  <//>`;
}
