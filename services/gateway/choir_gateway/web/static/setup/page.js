/* The set-up page: agents, models, configuration, secrets, people, channels, and this installation. */
import {html} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {PageFrame, Tabs} from "../cockpit/kit.js";
import {AgentsTab} from "./agents.js";
import {ChannelsTab} from "./channels.js";
import {ConfigTab} from "./config.js";
import {GuidesTab} from "./guides.js";
import {InstallationTab} from "./installation.js";
import {ModelsTab} from "./models.js";
import {PeopleTab} from "./people.js";
import {SecretsTab} from "./secrets.js";

const TABS = {
  agents: {title: "setup.tab.agents", View: AgentsTab},
  models: {title: "setup.tab.models", View: ModelsTab},
  config: {title: "setup.tab.config", View: ConfigTab},
  secrets: {title: "setup.tab.secrets", View: SecretsTab},
  channels: {title: "setup.tab.channels", View: ChannelsTab},
  people: {title: "setup.tab.people", View: PeopleTab},
  installation: {title: "setup.tab.installation", View: InstallationTab},
  guides: {title: "setup.tab.guides", View: GuidesTab},
};

export function Page({parts}) {
  const name = Object.hasOwn(TABS, parts[0] ?? "") ? parts[0] : "agents";
  const {View} = TABS[name];
  const tabs = Object.entries(TABS).map(([key, it]) => ({name: key, title: t(it.title), address: addressOf("setup", key)}));
  return html`<${PageFrame} title=${t("page.setup")}>
    <${Tabs} label=${t("page.setup")} tabs=${tabs} current=${name} />
    <${View} key=${name} parts=${parts} />
  </${PageFrame}>`;
}
