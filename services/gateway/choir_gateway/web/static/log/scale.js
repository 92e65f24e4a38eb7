/* The time axis of the lanes: time in which something happened has its length, long pauses are shortened. Pure. */

const WIDTH = 1_000;
const PAUSE_SHARE = 0.02; // the longest share of the width that one pause takes

/** Return a function from a time in milliseconds to a place from 0 to 1000. `spans` are `[start, end]`. */
export function makeScale(spans) {
  const pieces = mergeSpans(spans);
  if (!pieces.length) return () => 0;
  const busy = pieces.reduce((sum, [start, end]) => sum + (end - start), 0) || 1;
  const longestPause = busy * PAUSE_SHARE;
  const marks = []; // [time, length so far]
  let length = 0;
  pieces.forEach(([start, end], number) => {
    if (number) length += Math.min(longestPause, start - pieces[number - 1][1]);
    marks.push([start, length]);
    length += end - start;
    marks.push([end, length]);
  });
  return (time) => (interpolate(marks, time) / (length || 1)) * WIDTH;
}

function mergeSpans(spans) {
  const merged = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

function interpolate(marks, time) {
  const next = marks.findIndex(([at]) => at >= time);
  if (next === -1) return marks.at(-1)[1];
  if (next === 0) return 0;
  const [[start, from], [end, to]] = [marks[next - 1], marks[next]];
  return end === start ? to : from + ((time - start) / (end - start)) * (to - from);
}
