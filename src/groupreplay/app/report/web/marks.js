// Marks of what failed and of what is still wrong, and the legend of all signs of a picture. Pure. Needs format.js and unread.js.
"use strict";
const Marks = (() => {
  const { safe, exact } = Format;
  // Generations that were begun and never completed: only the time of all of them is known.
  function drawFailed(drawing, flag, y, about) {
    const { view, colours } = drawing, span = flag.failed ? drawing.span(...flag.failed) : null;
    if (!span || span[1] - span[0] < 3) return;
    const first = flag.generation - flag.skipped, numbers = flag.skipped === 1 ? `generation ${first}` : `generations ${first} to ${flag.generation - 1}`;
    const tip = [`${numbers}: begun and never completed`, `between ${exact(flag.failed[0], view.zone)} and ${exact(flag.failed[1], view.zone)}`, ...about];
    drawing.rect(span[0], y + 3, span[1] - span[0], 15, colours.warn, { opacity: 0.16, tip, act: { event: flag.event } });
    drawing.hatch(span[0], y + 3, span[1] - span[0], 15, colours.warn, { silent: true });
    const text = [`${numbers} failed`, `${flag.skipped} failed`].find(each => span[1] - span[0] > each.length * 6.5 + 26);
    if (!text) return;
    drawing.rect(span[0] + 12, y + 3, text.length * 6.3 + 6, 15, colours.paper, { opacity: 0.85, silent: true });
    drawing.text(span[0] + 15, y + 10, text, { fill: colours.warn, silent: true });
  }

  // What is still wrong at the end is marked there: conditions that hold, and what a diagnosis says of the end.
  function stillWrong({ doc }) {
    const links = doc.verdict.flatMap(one => one.links.filter(link => link.kind === "still_wrong"));
    return { links, open: doc.conditions.filter(bar => bar.until_ms === null && bar.severity !== "INFO") };
  }
  function isStillWrong(drawing) {
    const { links, open } = stillWrong(drawing);
    return Boolean(links.length || open.length) && drawing.inside(drawing.doc.events_until_ms);
  }
  // Its words stand above the lanes, as those of a time that is not known: where a picture has both, the latter are a line below.
  const LINE = 14;
  const secondLine = drawing => isStillWrong(drawing) && Unread.gapOfLog(drawing) ? LINE : 0;
  function drawStillWrong(drawing, top, bottom) {
    if (!isStillWrong(drawing)) return;
    const { doc, view } = drawing, { links, open } = stillWrong(drawing), x = Math.min(drawing.x(doc.events_until_ms), drawing.right), colour = drawing.colourOf(open.length ? open.map(bar => bar.severity) : ["WARN"]);
    const names = [...new Set(open.map(bar => safe(bar.name, 40)))], few = `${names.slice(0, 2).join(", ")}${names.length > 2 ? ` and ${names.length - 2} more` : ""}`;
    const tip = ["still wrong at the end", ...links.map(link => Format.sentence(link.parts, doc, view.zone)), ...open.map(bar => `${safe(bar.name)}${bar.subject ? `, ${safe(bar.subject)}` : ""}`)].slice(0, 12);
    drawing.rect(x - 1, top, 2, bottom - top, colour, { tip });
    drawing.add({ kind: "path", d: `M${x} ${top + 4}L${x - 9} ${top + 9}L${x} ${top + 14}Z`, fill: colour, tip });
    const text = names.length && !drawing.narrow ? `still wrong at the end: ${few}` : "still wrong at the end";
    const isRoomy = x - 13 - text.length * 7 > 10;
    drawing.text(isRoomy ? x - 13 : x + 6, top + 9, text, { align: isRoomy ? "right" : "left", bold: true, fill: colour, tip });
  }

  const SIGN = 16, GAP = 18, ROW = 17, SIZE = 11;
  const some = (doc, test) => doc.slots.some(lane => test(lane));
  // A text, whether a document has the sign, and the sign in a box of SIGN × 12 at (x, y).
  const ENTRIES = [
    ["ERROR", doc => doc.events.some(one => one.severity === "ERROR"), (d, x, y) => d.rect(x, y + 2, SIGN, 8, d.colours.bad, { silent: true })],
    ["WARN", doc => doc.events.some(one => one.severity === "WARN"), (d, x, y) => d.rect(x, y + 2, SIGN, 8, d.colours.warn, { silent: true })],
    ["INFO", () => true, (d, x, y) => d.rect(x, y + 2, SIGN, 8, d.colours.info, { silent: true })],
    ["the state began somewhere here", doc => doc.states.some(bar => bar.earliest_ms !== bar.since_ms), (d, x, y) => { d.rect(x, y + 4, SIGN, 7, d.colours.states.PreparingRebalance, { silent: true }); d.hatch(x, y + 4, SIGN, 7, d.colours.muted, { silent: true }); }],
    ["a completed rebalance; hollow: several", doc => doc.generations.length, (d, x, y) => d.add({ kind: "path", d: `M${x + 3} ${y + 2}L${x + 13} ${y + 2}L${x + 8} ${y + 11}Z`, fill: d.colours.muted, stroke: d.colours.muted, width: 1.5, silent: true })],
    ["generations begun and never completed", doc => doc.generations.some(flag => flag.skipped), (d, x, y) => { d.rect(x, y, SIGN, 12, d.colours.warn, { opacity: 0.16, silent: true }); d.hatch(x, y, SIGN, 12, d.colours.warn, { silent: true }); }],
    ["a member ends", doc => some(doc, lane => lane.tenures.some(stay => stay.until_ms !== null)), (d, x, y) => d.add({ kind: "path", d: `M${x + 4} ${y + 2}L${x + 12} ${y + 10}M${x + 12} ${y + 2}L${x + 4} ${y + 10}`, stroke: d.colours.text, width: 2, silent: true })],
    ["another process in its place", doc => some(doc, lane => lane.tenures.some((stay, at) => at && lane.tenures[at - 1].until_ms === stay.since_ms)), (d, x, y) => d.add({ kind: "path", d: `M${x + 4} ${y + 6}L${x + 8} ${y + 1}L${x + 12} ${y + 6}L${x + 8} ${y + 11}Z`, fill: d.colours.paper, stroke: d.colours.text, width: 1.3, silent: true })],
    ["a condition names the member: proven", doc => some(doc, lane => lane.blames.some(blame => blame.proven)), (d, x, y) => d.add({ kind: "rect", x, y: y + 1, w: SIGN, h: 10, fill: "transparent", stroke: d.colours.warn, width: 2, silent: true })],
    ["a condition names the member: inferred", doc => some(doc, lane => lane.blames.some(blame => !blame.proven)), (d, x, y) => d.add({ kind: "rect", x, y: y + 1, w: SIGN, h: 10, fill: "transparent", stroke: d.colours.warn, width: 2, dash: true, silent: true })],
    ["the group waits for its leader", doc => doc.generations.some(flag => flag.leader_slot !== null), (d, x, y) => d.rect(x, y + 4, SIGN, 4, d.colours.info, { silent: true })],
    ["pale: a rebalance, or no commit for unusually long", doc => doc.topics.length, (d, x, y) => { d.rect(x, y + 1, SIGN, 10, d.colours.rate, { silent: true }); d.rect(x + 5, y + 1, 6, 10, d.colours.veil, { silent: true }); }],
    ["an offset went forward or back", doc => doc.offset_changes.some(one => one.new !== null), (d, x, y) => d.add({ kind: "path", d: `M${x + 4} ${y + 11}L${x + 4} ${y + 1}M${x + 1} ${y + 4}L${x + 4} ${y + 1}L${x + 7} ${y + 4}M${x + 12} ${y + 1}L${x + 12} ${y + 11}M${x + 9} ${y + 8}L${x + 12} ${y + 11}L${x + 15} ${y + 8}`, stroke: d.colours.text, width: 1.6, silent: true })],
    ["an offset is lost", doc => doc.offset_changes.some(one => one.new === null), (d, x, y) => d.add({ kind: "path", d: `M${x + 4} ${y + 2}L${x + 12} ${y + 10}M${x + 12} ${y + 2}L${x + 4} ${y + 10}`, stroke: d.colours.warn, width: 2, silent: true })],
    ["records are missing, or not known", doc => doc.holes.length || doc.commit_gaps.length || doc.unread.length, (d, x, y) => { d.rect(x, y, SIGN, 12, d.colours.hole, { opacity: 0.35, silent: true }); d.hatch(x, y, SIGN, 12, d.colours.hole, { silent: true }); }],
    ["it holds at the end", doc => doc.conditions.some(bar => bar.until_ms === null), (d, x, y) => d.add({ kind: "path", d: `M${x + 3} ${y}L${x + 11} ${y + 6}L${x + 3} ${y + 12}Z`, fill: d.colours.text, silent: true })],
  ];
  // Draws the legend from a height on, and returns that of its end: in the picture, so that it is on paper, on a phone and in a
  // file, too. Only the signs that the document has.
  function drawLegend(drawing, top) {
    let x = 10, y = top;
    for (const [text, has, sign] of ENTRIES) {
      if (!has(drawing.doc)) continue;
      const width = SIGN + 5 + text.length * 5.9;
      if (x > 10 && x + width > drawing.view.width - 10) { x = 10; y += ROW; }
      sign(drawing, x, y);
      drawing.text(x + SIGN + 5, y + 6, text, { size: SIZE, fill: drawing.colours.muted, width: drawing.view.width - x - SIGN - 10, silent: true });
      x += width + GAP;
    }
    return y + ROW;
  }
  return { drawFailed, secondLine, drawStillWrong, drawLegend };
})();
