/* The microphone below the field, and the bar that is shown while it records. */
import {html, useEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {formatDuration, t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {findRecordingType, MAX_SECONDS, VoiceRecording} from "./recorder.js";

const TICK_MS = 250;

/** Return the state of the recorder: `start`, `cancel`, `finish` (a file), and the seconds, null if it is off. */
export function useVoice(onLimit) {
  const [seconds, setSeconds] = useState(null);
  const recording = useRef(null);
  const isStarting = useRef(false);
  const isGone = useRef(false);
  const atLimit = useRef();
  atLimit.current = onLimit;
  useEffect(() => {
    if (seconds === null) return undefined;
    const timer = setInterval(() => {
      setSeconds(recording.current?.seconds ?? null);
      if (recording.current?.seconds >= MAX_SECONDS) atLimit.current();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [seconds === null]);
  useEffect(() => () => {
    isGone.current = true;
    recording.current?.cancel();
  }, []);

  async function start() {
    if (isStarting.current) return;
    isStarting.current = true;
    try {
      const started = await VoiceRecording.start();
      // another conversation was opened while the browser asked
      if (isGone.current) {
        started.cancel();
        return;
      }
      recording.current = started;
      setSeconds(0);
    } catch (error) {
      notify(t(error.name === "NotAllowedError" ? "voice.forbidden" : "voice.failed", {problem: error.message}));
    } finally {
      isStarting.current = false;
    }
  }

  function take() {
    const taken = recording.current;
    recording.current = null;
    setSeconds(null);
    return taken;
  }

  return {seconds, start, cancel: () => take()?.cancel(), finish: () => take()?.finish()};
}

export function VoiceButton({voice}) {
  if (!findRecordingType()) return null;
  return html`<button type="button" class="quiet" aria-label=${t("voice.record")} title=${t("voice.record")}
    onClick=${voice.start}><${Icon} name="microphone" /></button>`;
}

export function VoiceBar({voice, onSend}) {
  const button = useRef();
  useEffect(() => button.current.focus(), []);
  return html`<div class="recording" role="group" aria-label=${t("voice.recording")}>
    <button type="button" class="quiet" aria-label=${t("voice.cancel")} title=${t("voice.cancel")} onClick=${voice.cancel}><${Icon} name="close" /></button>
    <span class="recording-dot" aria-hidden="true"></span>
    <span role="timer" aria-label=${t("voice.recording")}>${formatDuration(voice.seconds)}</span>
    <span class="hint" aria-hidden="true">${t("voice.recording")}</span>
    <button type="button" ref=${button} class="round primary" aria-label=${t("voice.send")} title=${t("voice.send")} onClick=${onSend}><${Icon} name="send" /></button>
  </div>`;
}
