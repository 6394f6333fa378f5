// What a document does not know because it could not be read, in lanes and in words. Pure. Needs format.js and marks.js.
"use strict";
const Unread = (() => {
  const { safe, clock, exact } = Format;
  // What could not be read: no lane may look as if nothing had happened.
  const WORDS = { unreachable: "could not be read: no broker answers", refused: "could not be read: not allowed", reading: "is still being read", hidden: "not read: names are hidden", absent: "could not be read: no such topic", other: "could not be read" };
  const ofLog = doc => doc.unread.find(one => one.what === "log") || null;
  // The words for a lane without anything in this view: `nothing` only if this time was read.
  function emptyText(drawing, nothing) {
    const { doc, view } = drawing, unread = ofLog(doc);
    if (!unread) return nothing;
    if (unread.since_ms === null || unread.since_ms <= view.since) return `the log ${WORDS[unread.reason]}`;
    return view.until > unread.since_ms ? `${nothing} up to ${clock(unread.since_ms, view.zone)}; the log ${WORDS[unread.reason]} after that` : nothing;
  }
  // The times of which the log lacks records: what is counted there is what is left.
  const LACKING = "Compaction has removed records of this time, or they are of aborted transactions, or were not read.";
  const lacks = (doc, since, until) => doc.commit_gaps.some(([from, to]) => to >= since && from < until);
  function drawLacking(drawing, top, bottom) {
    for (const [since, until] of drawing.doc.commit_gaps) {
      const span = drawing.span(since, until), { hole } = drawing.colours;
      if (!span) continue;
      const [a, b] = span, w = Math.max(b - a, 2);
      drawing.rect(a, top, w, bottom - top, hole, { opacity: 0.35, tip: [LACKING, "There may have been more commits than are shown."], z: 0 });
      drawing.hatch(a, top, w, bottom - top, hole, { silent: true, z: 0 });
    }
  }
  // The time at the end of which nothing is known, hatched, with the reason: of the log, then of events alone.
  function spanAfter(drawing, since) {
    const end = Math.max(drawing.doc.until_ms, drawing.view.end || 0), span = end > since ? drawing.span(since, end) : null;
    return span && span[1] - span[0] >= 1 ? span : null;
  }
  function drawGap(drawing, top, bottom, since, reason, tip, line = 0) {
    const span = reason && spanAfter(drawing, since);
    if (!span) return;
    const [a, b] = span, { colours } = drawing;
    drawing.rect(a, top, b - a, bottom - top, colours.hole, { opacity: 0.35, tip: [reason, ...tip], z: 0 });
    drawing.hatch(a, top, b - a, bottom - top, colours.hole, { silent: true, z: 0 });
    const right = b - a > reason.length * 6 + 12;
    if (right || a - drawing.left > reason.length * 6 + 12) drawing.text(right ? b - 5 : a - 5, top + 9 + line, reason, { align: "right", fill: colours.text, silent: true });
  }
  const reasonOfLog = ({ doc, view }) => ofLog(doc) ? WORDS[ofLog(doc).reason] : view.gap;
  const gapOfLog = drawing => reasonOfLog(drawing) ? spanAfter(drawing, drawing.doc.known_until_ms) : null;
  function drawGaps(drawing, top, told, height) {
    const { doc, view } = drawing, unread = ofLog(doc), zone = view.zone, reason = reasonOfLog(drawing);
    drawGap(drawing, top, told, doc.known_until_ms, reason && `not known: ${reason}`, [`known up to ${exact(doc.known_until_ms, zone)}`, ...(unread ? [safe(unread.text, 300)] : [])], Marks.secondLine(drawing));
    drawGap(drawing, told, height, doc.events_until_ms, view.eventsGap && `not known: ${view.eventsGap}`, [`known up to ${exact(doc.events_until_ms, zone)}`]);
  }
  return { WORDS, LACKING, ofLog, gapOfLog, emptyText, lacks, drawLacking, drawGaps };
})();
