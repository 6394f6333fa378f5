// Texts of times, counts and names, the same in the picture and in the pages. Pure.
"use strict";
const Format = (() => {
  // Characters that change what is around them, or that nobody sees, are written as \u{1b}.
  function safe(text, limit = 256) {
    const shown = String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu, one => "\\u{" + one.codePointAt(0).toString(16) + "}");
    return shown.length > limit ? shown.slice(0, limit - 1) + "…" : shown;
  }
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  function parts(ms, zone) {
    const date = new Date(ms);
    return zone === "local"
      ? [date.getFullYear(), date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds(), date.getMilliseconds()]
      : [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds(), date.getUTCMilliseconds()];
  }
  const day = (ms, zone) => { const [y, m, d] = parts(ms, zone); return `${y}-${pad(m)}-${pad(d)}`; };
  const clock = (ms, zone) => { const [, , , h, m, s] = parts(ms, zone); return `${pad(h)}:${pad(m)}:${pad(s)}`; };
  const exact = (ms, zone) => `${clock(ms, zone)}.${pad(parts(ms, zone)[6], 3)}`;
  function zoneName(ms, zone) {
    if (zone !== "local") return "UTC";
    const minutes = -new Date(ms).getTimezoneOffset(), size = Math.abs(minutes);
    return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
  }
  // As milliseconds() of state/phrases.py writes it: a page has texts of both.
  function lasted(ms) {
    const whole = Math.round(ms), tenths = Math.floor((whole + 50) / 100), seconds = Math.floor((whole + 500) / 1000), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    if (whole < 1000) return `${whole} ms`;
    if (tenths < 600) return `${Math.floor(tenths / 10)}.${tenths % 10} s`;
    if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
    return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }
  // The age of something that goes on, in whole units: one that ticks has no tenths.
  function age(ms) {
    const seconds = Math.max(0, Math.floor(ms / 1000)), whole = seconds < 3600 ? seconds : seconds - seconds % 60;
    return whole ? lasted(1000 * whole).replace(".0 s", " s").replace(/ 0 (s|min|h)$/, "") : "0 s";
  }
  const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  function rangeText(since, until, zone) {
    const from = `${day(since, zone)} ${clock(since, zone)}`;
    return day(since, zone) === day(until, zone) ? `${from} to ${clock(until, zone)}` : `${from} to ${day(until, zone)} ${clock(until, zone)}`;
  }

  // With the day where it is not that of the whole time shown.
  const moment = (ms, since, until, zone) => new Set([ms, since, until - 1].map(one => day(one, zone))).size === 1 ? clock(ms, zone) : `${day(ms, zone)} ${clock(ms, zone)}`;

  // A text of a document with its times in a zone.
  const sentence = (parts, { since_ms, until_ms }, zone) => parts.map(part => typeof part === "number" ? moment(part, since_ms, until_ms, zone) : safe(part, 1000)).join("");

  return { safe, pad, parts, day, moment, sentence, clock, exact, zoneName, lasted, age, counted, rangeText };
})();
