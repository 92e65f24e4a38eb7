/* The browsers that are signed in, and one-time links for others. */
import {post, send} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {DataTable, Dialog, Field, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {formatAgo, formatDateTime} from "../cockpit/formats.js";
import {useResource} from "../cockpit/resource.js";
import {Command, ConfirmButton, readForm} from "./parts.js";

export function Browsers({people}) {
  const sessions = useResource("v1/web/sessions");
  const revoke = (id) => async () => {
    await send("DELETE", `v1/web/sessions/${id}`);
    await sessions.reload();
  };
  return html`<${Section} title=${t("setup.browsers")} actions=${html`<${NewLink} people=${people} />`}>
    <${Waiting} resource=${sessions} />
    ${sessions.data && html`<${DataTable} label=${t("setup.browsers")} rows=${sessions.data.items} rowKey=${(it) => it.web_session_id} columns=${[
      {key: "person", title: t("setup.browser.person"), render: (it) => html`<strong>${it.person ?? t("operator")}</strong>`},
      {key: "agent", title: t("setup.browser.browser"), render: (it) => html`<span class="setup-value">${showInvisible(it.user_agent)}</span><br /><code class="detail">${it.web_session_id}</code>`},
      {key: "used", title: t("setup.browser.used"), render: (it) => html`<time datetime=${it.last_used_at} title=${formatDateTime(it.last_used_at)}>${formatAgo(it.last_used_at)}</time>`},
      {key: "expires", title: t("setup.browser.expires"), render: (it) => html`<time datetime=${it.expires_at}>${formatAgo(it.expires_at)}</time>`},
      {key: "action", title: html`<span class="hidden">${t("setup.browser.revoke")}</span>`, align: "end", render: (it) => html`<${ConfirmButton}
        title=${t("setup.browser.revoke.title")} text=${t("setup.browser.revoke.text")}
        label=${t("setup.browser.revoke.label", {person: it.person ?? t("operator"), when: formatAgo(it.last_used_at)})}
        action=${revoke(it.web_session_id)}>${t("setup.browser.revoke")}</${ConfirmButton}>`},
    ]} />`}
  </${Section}>`;
}

function NewLink({people}) {
  const [isOpen, setOpen] = useState(false);
  const [link, setLink] = useState(null);
  async function submit(event) {
    const {person} = readForm(event);
    try {
      setLink(await post("v1/web/links", {person: person || null}));
    } catch (error) {
      notify(error.message);
    }
  }

  function close() {
    setOpen(false);
    setLink(null); // anyone who has it can sign in
  }

  return html`<button onClick=${() => setOpen(true)}>${t("setup.link.new")}</button>
    <${Dialog} isOpen=${isOpen} title=${t("setup.link.new")} onClose=${close}>
      ${link
        ? html`<p>${t("setup.link.made", {person: link.person ?? t("operator"), when: formatAgo(link.expires_at)})}</p><${Command} text=${link.url} />`
        : html`<form class="form" onSubmit=${submit}>
          <${Field} label=${t("setup.browser.person")} hint=${t("setup.link.hint")}><select name="person">
            <option value="">${t("operator")}</option>
            ${people.map((it) => html`<option key=${it.name} value=${it.name}>${it.name}</option>`)}</select></${Field}>
          <div class="toolbar"><button class="primary">${t("setup.link.create")}</button></div></form>`}
    </${Dialog}>`;
}
