/* Recorder of voice messages. Opus in Ogg where the browser has it (Firefox), else in WebM (Chromium, Safari). */

const TYPES = ["audio/ogg;codecs=opus", "audio/webm;codecs=opus"];
/** The longest recording. */
export const MAX_SECONDS = 600;

/** Return the type that this browser records, or null. Browsers allow the microphone with TLS or on this machine. */
export function findRecordingType() {
  if (!navigator.mediaDevices?.getUserMedia || !globalThis.MediaRecorder) return null;
  return TYPES.find((type) => MediaRecorder.isTypeSupported(type)) ?? null;
}

export class VoiceRecording {
  /** Ask for the microphone and begin; throws if it is not allowed or there is none. */
  static async start() {
    const stream = await navigator.mediaDevices.getUserMedia({audio: true});
    return new VoiceRecording(stream, findRecordingType());
  }

  constructor(stream, type) {
    this.stream = stream;
    this.parts = [];
    this.startedAt = performance.now();
    this.recorder = new MediaRecorder(stream, {mimeType: type, audioBitsPerSecond: 32_000});
    this.recorder.ondataavailable = (event) => this.parts.push(event.data);
    this.recorder.start();
  }

  get seconds() {
    return Math.floor((performance.now() - this.startedAt) / 1000);
  }

  /** End the recording; return it as a file. */
  async finish() {
    const ended = new Promise((resolve) => { this.recorder.onstop = resolve; });
    if (this.recorder.state !== "inactive") this.recorder.stop();
    else this.recorder.onstop?.();
    await ended;
    this.release();
    // without the codec: the server knows a voice message by the type
    const type = this.recorder.mimeType.split(";")[0];
    return new File(this.parts, `voice.${type.split("/")[1]}`, {type});
  }

  cancel() {
    this.recorder.onstop = null;
    if (this.recorder.state !== "inactive") this.recorder.stop();
    this.release();
  }

  /** Switch the microphone off. */
  release() {
    for (const track of this.stream.getTracks()) track.stop();
  }
}
