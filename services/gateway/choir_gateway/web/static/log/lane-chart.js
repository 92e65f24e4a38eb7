/* The lanes over time: a bar for each turn and job, a mark for each tool call. The list below has the same in words. */
import {html, useMemo} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {Section, showInvisible} from "../cockpit/kit.js";
import {isFailure} from "./filters.js";
import {makeScale} from "./scale.js";

const NEWEST = 150; // groups; more would be thinner than a pixel
const MOST_LANES = 12;
const LEAST_WIDTH = 3;
const HEIGHT = 20;

export function LaneChart({id, groups, version}) {
  const chart = useMemo(() => draw(groups), [version]);
  if (!chart) return null;
  return html`<${Section} title=${t("log.lanes")} detail=${t("log.lanes.detail", {from: formatDateTime(chart.start), to: formatDateTime(chart.end)})}>
    <div class="panel log-lanes" aria-hidden="true">${chart.lanes.map(({lane, bars}) => html`<div key=${lane} class="log-lane">
      <span class="name" title=${lane}>${showInvisible(lane)}</span>
      <svg viewBox="0 0 1000 ${HEIGHT}" preserveAspectRatio="none">${bars.map((bar) => html`<rect key=${bar.key} class=${bar.look}
        x=${bar.x} width=${bar.width} y=${bar.isCall ? 6 : 2} height=${bar.isCall ? HEIGHT - 12 : HEIGHT - 4} rx="2"
        onClick=${() => { location.hash = addressOf("log", id, String(bar.rev)); }}><title>${bar.title}</title></rect>`)}</svg>
    </div>`)}</div>
  <//>`;
}

function draw(all) {
  const groups = all.filter((group) => group.kind !== "session").slice(-NEWEST);
  if (!groups.length) return null;
  const times = (it) => [Date.parse(it.at ?? it.start), Date.parse(it.end)];
  const place = makeScale(groups.map(times));
  const lanes = new Map();
  const box = (it) => {
    const [from, to] = times(it).map(place);
    return {x: Math.min(from, 1_000 - LEAST_WIDTH), width: Math.max(LEAST_WIDTH, to - from)};
  };
  for (const group of groups) {
    const bars = lanes.get(group.lane) ?? [];
    lanes.set(group.lane, bars);
    bars.push({...box(group), key: group.key, rev: group.firstRev, title: group.name || group.text, look: `turn ${group.kind}`});
    for (const row of group.rows.filter((it) => it.kind === "call")) {
      bars.push({...box(row), key: `call-${row.rev}`, rev: row.rev, title: row.tool, isCall: true, look: isFailure(row) ? "call bad" : "call"});
    }
  }
  const shown = [...lanes].sort(([a], [b]) => isJob(a) - isJob(b)).slice(0, MOST_LANES);
  const end = groups.reduce((latest, it) => (it.end > latest ? it.end : latest), "");
  return {lanes: shown.map(([lane, bars]) => ({lane, bars})), start: groups[0].start, end};
}

function isJob(lane) {
  return lane.startsWith("core:") ? 1 : 0;
}
