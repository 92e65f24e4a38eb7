/* Builds and updates: the newest ones, and the progress of those that run. */
import {EventFollower} from "../app/events.js";
import {html, useEffect, useState} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {Badge, Empty, Section, Source, Waiting} from "../cockpit/kit.js";
import {formatAgo} from "../cockpit/formats.js";

const KINDS = {running: "busy", succeeded: "good", failed: "bad", interrupted: "warning"};
const MAX_LINES = 200;

export function OperationList({resource, onEnd}) {
  return html`<${Section} title=${t("setup.operations")}>
    <${Waiting} resource=${resource} />
    ${resource.data?.items.length === 0 && html`<${Empty}>${t("setup.operations.none")}</${Empty}>`}
    <ul class="setup-list">${resource.data?.items.map((it) => html`<${OperationItem} key=${it.operation_id} view=${it} onEnd=${onEnd} />`)}</ul>
  </${Section}>`;
}

function OperationItem({view, onEnd}) {
  const [current, setCurrent] = useState(view);
  const [lines, setLines] = useState([]);
  useEffect(() => setCurrent((old) => (old.status === "running" ? view : old)), [view]);
  useEffect(() => {
    if (view.status !== "running") return undefined;
    const follower = new EventFollower(`v1/operations/${encodeURIComponent(view.operation_id)}/events`, {
      lastId: 0,
      onState() {},
      onEvent(kind, event) {
        if (kind === "end") {
          setCurrent(event);
          follower.stop();
          onEnd();
        } else if (kind === "step") {
          setCurrent((old) => ({...old, step: event.text, share: event.share}));
        } else {
          setLines((old) => [...old, event.text].slice(-MAX_LINES));
        }
      },
    });
    return () => follower.stop();
  }, [view.operation_id]);

  const outcomes = (current.result?.agents ?? []).filter((it) => it.reason || it.outcome);
  return html`<li class="panel" data-operation=${current.kind}>
    <h3>${serverText(current.kind)}<span class="detail">${current.subject}</span>
      <${Badge} kind=${KINDS[current.status]}>${t(`setup.operation.${current.status}`)}</${Badge}>
      <time class="detail" datetime=${current.began_at}>${formatAgo(current.began_at)}</time></h3>
    ${current.status === "running" && html`<p role="status">${serverText(current.step)}</p>
      <progress value=${current.share ?? undefined} max="1" aria-label=${t("setup.operation.progress")}></progress>`}
    ${current.error && html`<p class="problem">${serverText(current.error)}</p>`}
    ${outcomes.map((it) => html`<p key=${it.agent_id} class="detail">${it.agent_id}: ${t(`setup.outcome.${it.outcome}`)}${it.reason && ` (${serverText(it.reason)})`}</p>`)}
    ${lines.length > 0 && html`<details><summary>${t("setup.operation.output")}</summary>
      <${Source} value=${lines.join("\n")} label=${t("setup.operation.output")} /></details>`}
  </li>`;
}
