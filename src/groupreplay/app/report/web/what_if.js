// What was recorded, and what other settings would have made of it, on the axis of the picture. Pure. Needs format.js.
"use strict";
const WhatIf = (() => {
  const { safe, exact, lasted, counted } = Format;
  const LINE = 15, CHARACTER = 6.4;
  // Sentences, as many on a line as have room; the first line is that of the heading.
  function write(drawing, sentences, fill) {
    const x = drawing.narrow ? 10 : drawing.left, width = drawing.right - x, most = Math.floor(width / CHARACTER), lines = [""];
    const pieces = sentences.map((text, at) => at < sentences.length - 1 ? `${text};` : text).flatMap(text => text.length > most ? text.split(" ") : [text]);
    for (const piece of pieces) {
      const longer = `${lines[lines.length - 1]} ${piece}`.trim();
      if (longer.length <= most || longer === piece) lines[lines.length - 1] = longer; else lines.push(piece);
    }
    for (const line of lines) { drawing.text(x, drawing.y - 10, line, { fill, width }); drawing.y += LINE; }
  }
  // Rebalances are ticks; bars are times in which a partition or more stood still. `joined` joins spans that are narrow.
  function draw(drawing, height, joined) {
    const { doc: { whatif }, view, colours } = drawing;
    if (!whatif) return;
    const costs = whatif.costs.map(text => safe(text, 200));
    drawing.section("WHAT IF");
    if (drawing.narrow) drawing.y += 14;
    write(drawing, [safe(whatif.text, 900)], drawing.colours.muted);
    write(drawing, costs, drawing.colours.text);
    drawing.y += 6;
    for (const lane of whatif.lanes) {
      const y = drawing.y, h = height - 5, name = safe(lane.name, 40), { length } = lane.rebalances_ms;
      drawing.label(y + h / 2, name, { fill: colours.text });
      drawing.rect(drawing.left, y, drawing.right - drawing.left, h, colours.band, { tip: [`${name}: ${counted(length, "rebalance")}`, ...costs] });
      for (const { a, b, spans } of joined(drawing, lane.stops, 2)) {
        const since = spans[0][0], until = spans[spans.length - 1][1];
        const tip = [`${name}: partitions stood still`, `${exact(since, view.zone)} to ${exact(until, view.zone)} (${lasted(until - since)}), at most`];
        drawing.rect(a, y + 2, b - a, h - 4, colours.warn, { tip, act: { go: [since, until] } });
      }
      let edge = -10;
      for (const at of lane.rebalances_ms.filter(time => drawing.inside(time) && drawing.x(time) >= edge)) {
        edge = drawing.x(at) + 2;
        drawing.rect(drawing.x(at) - 0.5, y - 1, 1, h + 2, colours.text, { tip: [`${name}: a rebalance was over`, exact(at, view.zone)] });
      }
      drawing.y += height;
    }
  }

  return { draw };
})();
