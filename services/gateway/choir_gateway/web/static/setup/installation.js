/* This installation: version and services, and what is done with commands: tools and skills, backup, upgrade. */
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {Badge, Details, Section, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {Command} from "./parts.js";

export function InstallationTab() {
  const status = useResource("v1/status", {everyMs: IDLE_MS});
  const data = status.data;
  const agents = data?.agents.map((it) => it.agent_id) ?? [];
  const agent = agents[0] ?? "AGENT";
  return html`<${Section} title=${t("setup.installation")}>
      <${Waiting} resource=${status} />
      ${data && html`<div class="panel"><${Details} items=${[
        [t("setup.installation.version"), `Choir ${data.version}`],
        [t("setup.installation.home"), html`<code>${data.home}</code>`],
        [t("setup.installation.parts"), data.parts.map((it) => html`<div key=${it.name}><${Badge} kind=${it.ok ? "good" : "bad"}>${it.name}</${Badge}>${it.detail && html` <span class="detail">${serverText(it.detail)}</span>`}</div>`)],
      ]} /></div>`}
    </${Section}>
    <${Section} title=${t("setup.tools")}><p>${t("setup.tools.text", {folder: `${data?.home ?? "CHOIR_HOME"}/agents/${agent}`})}</p>
      ${(agents.length ? agents : [agent]).map((it) => html`<${Command} key=${it} text=${`choirctl agent update ${it}`} />`)}</${Section}>
    <${Section} title=${t("setup.backup")}><p>${t("setup.backup.text")}</p>
      <${Command} text="choirctl db backup choir.backup" />
      <p>${t("setup.restore.text")}</p>
      <${Command} text="choirctl down" /><${Command} text="choirctl db restore choir.backup" /><${Command} text="choirctl up --detach" /></${Section}>
    <${Section} title=${t("setup.upgrade")}><p>${t("setup.upgrade.text")}</p>
      <${Command} text="choirctl db backup choir.backup" /><${Command} text="choirctl down" /><${Command} text="git pull" /><${Command} text="make install" />
      <${Command} text="choirctl up --detach" /></${Section}>`;
}
