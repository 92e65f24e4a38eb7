/* One lane: a conversation or a core job, what it does, what it waits for, what it costs, and how to steer it. */
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDuration, formatMoney, formatNumber} from "../cockpit/formats.js";
import {Badge, Details, showInvisible} from "../cockpit/kit.js";
import {CancelDialog, InstructDialog} from "./actions.js";
import {budgetsLeft} from "./lanes.js";

const SHOWN_COUNTS = ["per_job_max_steps", "per_job_max_tool_calls", "max_steps_per_turn", "total_session_tokens"];

export function LaneCard({agent, lane, costs, now, reportedAt}) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const canCancel = !lane.isIdle && !lane.isEnded;
  return html`<article class="panel lane" data-busy=${canCancel ? "yes" : "no"} aria-label=${titleOf(lane)}>
    <h3><span class="lane-name">${titleOf(lane)}</span><${Badge} kind=${lane.kind}>${t(`now.state.${lane.state}`)}</${Badge}>
      ${canCancel && lane.since && html`<span class="detail elapsed">${formatDuration(wholeSeconds(now - new Date(lane.since)))}</span>`}</h3>
    ${lane.job?.task && html`<p class="task" dir="auto">${showInvisible(lane.job.task)}</p>`}
    <${Doing} lane=${lane} now=${now} />
    ${lane.report.model_failure && html`<p class="problem">${showInvisible(serverText(lane.report.model_failure.words))}</p>`}
    ${lane.job?.report && html`<div class="report"><span class="detail">${t("now.report")}</span>
      <p dir="auto">${showInvisible(lane.job.report)}</p></div>`}
    ${lane.job?.reason && html`<p class="detail" dir="auto">${showInvisible(serverText(lane.job.reason))}</p>`}
    <${Details} items=${facts(lane, costs, reportedAt, now)} />
    <div class="lane-actions">
      ${!lane.isEnded && html`<button onClick=${() => setOpen("instruct")}>${t("now.instruct")}</button>`}
      ${canCancel && html`<button class="danger" onClick=${() => setOpen("cancel")}>${t(lane.isJob ? "now.cancel.job" : "now.cancel.turn")}</button>`}
    </div>
    <${InstructDialog} isOpen=${open === "instruct"} agent=${agent} lane=${lane} onClose=${close} />
    <${CancelDialog} isOpen=${open === "cancel"} agent=${agent} lane=${lane} onClose=${close} />
  </article>`;
}

function titleOf(lane) {
  return t(lane.isJob ? "now.job" : "now.conversation", {name: lane.name});
}

/** The tool that runs, the locks that are waited for with their holders, or the decision that is needed. */
function Doing({lane, now}) {
  const {call, waits, asked} = lane;
  if (!call) return null;
  const took = formatDuration(wholeSeconds(now - new Date(call.since)));
  return html`<div class="doing">
    <p>${t(call.isRunning ? "now.tool.runs" : "now.tool.waits")} <code>${showInvisible(call.tool)}</code> <span class="detail">${took}</span></p>
    ${waits.map((wait) => html`<p key=${wait.resource} class="wait">${t("now.lock", {mode: t(`now.lock.${wait.mode}`)})} <code>${showInvisible(wait.resource)}</code> ${t("now.lock.held", {lanes: wait.lanes.map(laneWords).join(", ")})}</p>`)}
    ${asked && html`<p class="wait"><a href=${addressOf("approvals", asked.approval_id)}>${t("now.asked")}</a></p>`}
    ${call.isRunning && call.locks.length > 0 && html`<p class="detail">${t("now.locks")} ${call.locks.map((lock) => html`<code
      key=${lock.resource}>${showInvisible(lock.resource)}</code> `)}</p>`}
  </div>`;
}

function laneWords(lane) {
  return lane.startsWith("core:") ? t("now.job", {name: lane.slice(5)}) : t("now.conversation.lane", {name: lane.replace(/^edge:?/, "")}).trim();
}

function facts(lane, costs, reportedAt, now) {
  const {time, counts} = budgetsLeft(lane.report, reportedAt, now);
  const spent = lane.isJob ? costs?.jobs[lane.job?.id] : costs?.conversations;
  const tokens = spent ? spent.prompt_tokens + spent.completion_tokens : lane.job?.tokens ?? 0;
  const items = [
    [t("now.skill"), lane.report.skill && showInvisible([lane.report.skill, lane.report.step].filter(Boolean).join(" · "))],
    [t("now.spent"), tokens > 0 && spentText(tokens, spent)],
    [t("now.took"), lane.job?.outcome && formatDuration(lane.job.durationMs)],
  ];
  if (lane.isEnded) return shown(items);
  items.push([t("now.time"), time !== null && formatDuration(wholeSeconds(time))]);
  for (const name of SHOWN_COUNTS) {
    if (counts[name] !== undefined) items.push([t(`now.left.${name}`), formatNumber(counts[name])]);
  }
  return shown(items);
}

function shown(items) {
  return items.filter(([, value]) => value);
}

function spentText(tokens, spent) {
  const words = t("now.tokens", {count: formatNumber(tokens)});
  const hasPrice = spent && (Number(spent.cost_usd) > 0 || spent.unknown_calls === 0);
  return hasPrice ? `${words} · ${formatMoney(spent.cost_usd)}` : words;
}

/** Durations that change each second show no fractions. */
function wholeSeconds(milliseconds) {
  return Math.max(1, Math.floor(milliseconds / 1_000)) * 1_000;
}
