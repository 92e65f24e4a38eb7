/* Cost and health: money by day, agent, model and job, budgets, services, models and schedules. */
import {html} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {PageFrame, Tabs} from "../cockpit/kit.js";
import {Budgets} from "./budgets.js";
import {Health} from "./health.js";
import {Schedules} from "./schedules.js";
import {Spending} from "./spending.js";

export function Page({parts: [name = "money"]}) {
  const views = {money: Spending, budgets: Budgets, health: Health, schedules: Schedules};
  const View = views[name] ?? Spending;
  const tabs = [
    {name: "money", title: t("cost.money"), address: addressOf("cost")},
    {name: "budgets", title: t("cost.budgets"), address: addressOf("cost", "budgets")},
    {name: "health", title: t("cost.health"), address: addressOf("cost", "health")},
    {name: "schedules", title: t("cost.schedules"), address: addressOf("cost", "schedules")},
  ];
  return html`<${PageFrame} title=${t("page.cost")}>
    <${Tabs} label=${t("page.cost")} tabs=${tabs} current=${name in views ? name : "money"} />
    <${View} />
  <//>`;
}
