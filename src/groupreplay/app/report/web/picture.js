// The picture of one timeline document: a list of shapes, and an ECharts option that draws them.
// Pure: it reads the document and the view, and touches neither the page nor the network. The program draws SVG with it.
// Needs format.js, unread.js, marks.js and what_if.js.
"use strict";
const Picture = (() => {
  // The labels of a narrow picture have less room, so that the times have some.
  const LABEL = 190, NARROW = 600, NARROW_LABEL = 112, RIGHT = 26, TOP = 34, MOST_ITEMS = 5000;
  const ROW = { member: 20, partition: 12, wide: 16, condition: 18, folded: 34, rate: 34 };
  const SHOWN = { members: 30, partitions: 60, conditions: 40 };
  // Okabe and Ito's colours and some of Tol's, without red: red is only for what is wrong.
  const OWNERS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#9a8700", "#5b4bb5", "#44aa99", "#a8643a", "#7f8fa6"];
  const LIGHT = {
    paper: "#ffffff", text: "#1b2430", muted: "#5c6779", faint: "#8a94a5", line: "#e2e7ee", band: "#f5f7fa",
    bad: "#c4262e", badSoft: "#f6d5d3", warn: "#b26b00", info: "#3d6ea5", hole: "#d9dee6", veil: "rgba(255,255,255,.62)",
    onColour: "#ffffff", rate: "#6b8db5", rateFill: "#d8e3f0", mixed: "#9aa3b1",
    states: { Stable: "#cfe6da", Empty: "#e6eaf0", Dead: "#f1f3f6", PreparingRebalance: "#f3b23e", CompletingRebalance: "#f7d48d",
      Assigning: "#f3b23e", Reconciling: "#f7d48d", NotReady: "#e9cfa2" },
  };
  const DARK = {
    paper: "#11161d", text: "#e6ebf2", muted: "#a2adbd", faint: "#78859a", line: "#2a323e", band: "#171d26",
    bad: "#ff6b63", badSoft: "#4a2226", warn: "#f0b04a", info: "#79aee6", hole: "#333c49", veil: "rgba(17,22,29,.6)",
    onColour: "#ffffff", rate: "#7ea3cf", rateFill: "#24384f", mixed: "#7b8494",
    states: { Stable: "#1f4a3a", Empty: "#2a313c", Dead: "#1d232c", PreparingRebalance: "#a9761b", CompletingRebalance: "#7d6330",
      Assigning: "#a9761b", Reconciling: "#7d6330", NotReady: "#665433" },
  };
  // The documents decide what is how severe; here a severity has its colour.
  const SEVERITY = { INFO: "info", WARN: "warn", ERROR: "bad" }, SEVERITIES = ["INFO", "WARN", "ERROR"];
  // The highest of severities; undefined of none.
  const worst = list => SEVERITIES[Math.max(...list.map(one => SEVERITIES.indexOf(one)))];

  const { safe, parts, day, clock, exact, zoneName, lasted, counted } = Format;

  function shade(hex, step) {
    const amount = [0, 0.32, -0.3][step % 3];
    const mix = channel => Math.round(amount > 0 ? channel + (255 - channel) * amount : channel * (1 + amount));
    const value = parseInt(hex.slice(1), 16);
    return `rgb(${mix(value >> 16)},${mix((value >> 8) & 255)},${mix(value & 255)})`;
  }
  const ownerColour = slot => shade(OWNERS[slot % OWNERS.length], Math.floor(slot / OWNERS.length));
  const luminance = colour => {
    const [r, g, b] = colour.startsWith("#") ? [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/\d+/g).map(Number);
    return 0.299 * r + 0.587 * g + 0.114 * b;
  };

  // The first span that ends after a moment; spans follow each other.
  function firstAfter(spans, at, end = 1) {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][end] <= at) low = middle + 1; else high = middle;
    }
    return low;
  }

  class Drawing {
    constructor(doc, view) {
      this.doc = doc; this.view = view; this.colours = view.dark ? DARK : LIGHT;
      this.items = []; this.y = TOP; this.regions = {};
      this.narrow = view.width < NARROW; this.left = this.narrow ? NARROW_LABEL : LABEL; this.right = Math.max(view.width - RIGHT, this.left + 50);
      this.scale = (this.right - this.left) / Math.max(view.until - view.since, 1);
    }
    colourOf(severities) { return this.colours[SEVERITY[worst(severities)]]; }
    x(ms) { return this.left + (ms - this.view.since) * this.scale; }
    // The pixels of a span inside of the picture; null: it is outside. An open one ends where the knowledge does.
    span(since, until, end = this.doc.known_until_ms) {
      const a = Math.max(this.x(since), this.left), b = Math.min(this.x(until === null ? end : until), this.right);
      return b < this.left || a > this.right || b < a ? null : [a, b];
    }
    inside(ms) { return ms >= this.view.since && ms <= this.view.until; }
    add(item) { this.items.push(item); return item; }
    rect(x, y, w, h, fill, more) { return this.add({ kind: "rect", x, y, w: Math.max(w, 1), h, fill, ...more }); }
    text(x, y, text, more) { return this.add({ kind: "text", x, y, text, fill: this.colours.text, size: 11, ...more }); }
    hatch(x, y, w, h, colour, more) {
      const step = 7, lines = [];
      for (let at = x - h; at < x + w; at += step) {
        const a = Math.max(at, x), b = Math.min(at + h, x + w);
        if (b > a) lines.push(`M${a.toFixed(1)} ${(y + h - (a - at)).toFixed(1)}L${b.toFixed(1)} ${(y + h - (b - at)).toFixed(1)}`);
      }
      if (lines.length) this.add({ kind: "path", d: lines.join(""), stroke: colour, width: 1.4, ...more });
    }
    section(title, note) {
      this.y += 22;
      this.text(10, this.y - 10, title, { size: 11, bold: true, fill: this.colours.muted });
      if (note) this.text(this.left, this.y - 10, note, { fill: this.colours.faint, width: this.right - this.left });
    }
    label(y, text, more) { this.text(this.left - 10, y, text, { align: "right", width: this.left - 22, fill: this.colours.muted, ...more }); }
  }

  function drawHoles(drawing, height) {
    for (const hole of drawing.doc.holes) {
      const span = drawing.span(hole.since_ms, hole.until_ms);
      if (!span) continue;
      const [a, b] = span, tip = ["Compacted away: " + hole.text, "The log has no records of this time any more."];
      // One whose begin is not known has no length, and is drawn all the same.
      const w = Math.max(b - a, 5);
      drawing.rect(a, TOP, w, height - TOP, drawing.colours.hole, { opacity: 0.35, tip, z: 0 });
      drawing.hatch(a, TOP, w, height - TOP, drawing.colours.hole, { z: 0 });
    }
  }

  // Spans [since, until, ...] in view, with pixels; neighbours that are both narrower than a width are one of several.
  function joined(drawing, spans, width) {
    const found = [];
    for (let at = firstAfter(spans, drawing.view.since); at < spans.length && spans[at][0] < drawing.view.until; at++) {
      const pixels = drawing.span(spans[at][0], spans[at][1]);
      if (!pixels) continue;
      const [a, b] = pixels, last = found[found.length - 1];
      if (last && b - a < width && last.narrow && a - last.b < width) {
        last.b = Math.max(last.b, b); last.spans.push(spans[at]);
      } else found.push({ a, b, spans: [spans[at]], narrow: b - a < width });
    }
    return found;
  }
  // The smallest width with which a picture has at most so many shapes.
  function narrowest(most, count) {
    let width = 1;
    while (width < 128 && count(width) > most) width *= 2;
    return width;
  }
  const REST = new Set(["Stable", "Empty", "Dead"]);

  function drawStates(drawing) {
    const { doc, colours } = drawing;
    drawing.section("STATE");
    const y = drawing.y, h = 22, later = [], bars = doc.states.map(bar => [bar.since_ms, bar.until_ms === null ? doc.known_until_ms : bar.until_ms, bar]);
    const width = narrowest(500, one => joined(drawing, bars, one).length);
    for (const group of joined(drawing, bars, width)) {
      if (group.spans.length === 1) drawState(drawing, group.spans[0][2], y, h, later);
      else drawManyStates(drawing, group, y, h);
    }
    later.forEach(draw => draw());
    if (!doc.states.length) drawing.text(drawing.left, y + h / 2, Unread.emptyText(drawing, "not known: there is no record of it"), { fill: colours.faint });
    drawing.y += h;
  }

  function drawState(drawing, bar, y, h, later) {
    const { doc, view, colours } = drawing;
    const until = bar.until_ms === null ? doc.known_until_ms : bar.until_ms, earliest = bar.earliest_ms === null ? doc.since_ms : bar.earliest_ms;
    const span = drawing.span(bar.since_ms, until), fill = colours.states[bar.state] || colours.states.NotReady;
    const unsure = earliest < bar.since_ms ? drawing.span(earliest, bar.since_ms) : null;
    const began = bar.earliest_ms === bar.since_ms ? exact(bar.since_ms, view.zone)
      : bar.earliest_ms === null ? `before ${exact(bar.since_ms, view.zone)}` : `between ${exact(earliest, view.zone)} and ${exact(bar.since_ms, view.zone)}`;
    const least = until - bar.since_ms, most = until - earliest;
    const tip = [bar.state, `since ${began}`, bar.until_ms === null ? `holds at ${exact(until, view.zone)}` : least === most ? `for ${lasted(least)}` : `for ${lasted(least)} to ${lasted(most)}`,
      bar.evidence === "record" ? "a record of the log proves it" : bar.evidence === "probe" ? "an answer of a broker proves it" : bar.evidence === "summed" ? "several short states, summed up" : "inferred: no record has its begin",
      ...(bar.generation === null ? [] : [`generation ${bar.generation}`]),
      ...doc.generations.filter(flag => bar.state === "CompletingRebalance" && flag.at_ms === bar.until_ms).flatMap(leaderTip)];
    if (unsure && unsure[1] - unsure[0] > 2) {
      const at = y + h - 7, tipped = [...tip, "hatched: it began somewhere here"];
      later.push(() => {
        // A state that has no known length at all is not drawn as if it had one.
        drawing.rect(unsure[0], at, unsure[1] - unsure[0], 7, fill, { opacity: least > 0 ? 0.9 : 0.3, tip: tipped });
        drawing.hatch(unsure[0], at, unsure[1] - unsure[0], 7, colours.muted, { silent: true });
      });
    }
    if (!span) return;
    drawing.rect(span[0], y, span[1] - span[0], h, fill, { tip, act: { go: [bar.since_ms, until] } });
    const name = [bar.state, bar.state.replace("Rebalance", "")].find(text => span[1] - span[0] > text.length * 6.2 + 10);
    if (name) drawing.text(span[0] + 6, y + h / 2 - 2, name, { fill: colours.text, silent: true });
  }

  // States that are too short to be drawn: how much of the time each of them has.
  function drawManyStates(drawing, group, y, h) {
    const { view, colours } = drawing, times = new Map(), first = group.spans[0][0], last = group.spans[group.spans.length - 1][1];
    let all = 0, moving = 0;
    for (const [since, until, bar] of group.spans) {
      times.set(bar.state, (times.get(bar.state) || 0) + until - since);
      all += until - since;
      if (!REST.has(bar.state)) moving += until - since;
    }
    const shares = [...times].sort((a, b) => b[1] - a[1]).map(([state, time]) => `${state}: ${Math.round(100 * time / Math.max(all, 1))} %`);
    const tip = [`${group.spans.length} states in turn`, ...shares, `${exact(first, view.zone)} to ${exact(last, view.zone)}`, "click: zoom in"], high = h * moving / Math.max(all, 1);
    drawing.rect(group.a, y, group.b - group.a, h, colours.states.Stable, { tip, act: { go: [first, last] } });
    drawing.rect(group.a, y + h - high, group.b - group.a, high, colours.states.PreparingRebalance, { silent: true });
  }

  function drawGenerations(drawing) {
    const { doc, view, colours } = drawing;
    drawing.section("GENERATIONS");
    const y = drawing.y, shown = doc.generations.filter(flag => drawing.inside(flag.at_ms));
    let group = [];
    const groups = [];
    for (const flag of shown) {
      const x = drawing.x(flag.at_ms);
      if (group.length && x - drawing.x(group[0].at_ms) < 11) group.push(flag);
      else groups.push(group = [flag]);
    }
    for (const flag of doc.generations) Marks.drawFailed(drawing, flag, y, flagTip(flag, view).slice(0, 2));
    groups.forEach((flags, index) => {
      const first = flags[0], last = flags[flags.length - 1], x = drawing.x(first.at_ms);
      const skipped = flags.reduce((sum, flag) => sum + flag.skipped, 0), colour = skipped ? colours.warn : colours.muted;
      const tip = flags.length === 1 ? flagTip(first, view) : [`${flags.length} rebalances: generations ${first.generation} to ${last.generation}`,
        `${clock(first.at_ms, view.zone)} to ${clock(last.at_ms, view.zone)}`, ...(skipped ? [`${counted(skipped, "generation")} never completed`] : []), "zoom in to see each"];
      const act = flags.length === 1 ? { event: first.event } : { go: [first.at_ms - 1000, last.at_ms + 1000] };
      drawing.add({ kind: "path", d: `M${x - 5} ${y + 3}L${x + 5} ${y + 3}L${x} ${y + 12}Z`, fill: flags.length > 1 ? colours.paper : colour, stroke: colour, width: 1.5, tip, act });
      drawing.add({ kind: "path", d: `M${x} ${y + 12}L${x} ${y + 18}`, stroke: colour, width: 1, silent: true });
      const next = index + 1 < groups.length ? drawing.x(groups[index + 1][0].at_ms) : drawing.right;
      const name = flags.length > 1 ? `${flags.length}×` : String(first.generation);
      const shown = [skipped ? `${name} (${skipped} failed)` : name, name].find(text => next - x > text.length * 6.5 + 16);
      if (shown) drawing.text(x + 8, y + 8, shown, { fill: colour, silent: true });
    });
    if (!doc.generations.length) drawing.text(drawing.left, y + 8, doc.events_until_ms <= doc.since_ms ? "not known" : "no rebalance was completed", { fill: colours.faint });
    drawing.y += 20;
  }

  function flagTip(flag, view) {
    const took = [flag.took || "length not known",
      ...(flag.join_ms_max !== null ? [`join ${lasted(flag.join_ms_min || 0)} to ${lasted(flag.join_ms_max)}`] : []), ...(flag.sync_ms !== null ? [`sync ${lasted(flag.sync_ms)}`] : [])];
    return [`Generation ${flag.generation}, ${exact(flag.at_ms, view.zone)}`, `trigger: ${flag.trigger.replace(/_/g, " ")}`,
      `${counted(flag.members, "member")}${flag.joined ? `, ${flag.joined} joined` : ""}${flag.left ? `, ${flag.left} left` : ""}`,
      flag.moved === null ? "moved partitions not known" : `${counted(flag.moved, "partition")} moved`,
      ...(flag.unassigned ? [`${counted(flag.unassigned, "partition")} without an owner`] : []),
      ...(flag.skipped ? [`${counted(flag.skipped, "generation")} before it never completed`] : []), took.join(", "), ...(flag.cost ? [flag.cost.text] : []), ...leaderTip(flag)];
  }

  const leaderTip = flag => flag.slow_leader === null ? [] : [`the group waited ${lasted(flag.sync_ms)} for the assignment of the leader, ${safe(flag.slow_leader, 120)}`];

  function paged(drawing, name, rows, most) {
    const top = Math.max(0, Math.min(drawing.view.tops[name] || 0, rows.length - most));
    drawing.regions[name] = { y: drawing.y, total: rows.length, top, shown: Math.min(most, rows.length) };
    return rows.slice(top, top + most);
  }
  function pageNote(drawing, name, most, total) {
    if (total <= most) return "";
    const top = Math.max(0, Math.min(drawing.view.tops[name] || 0, total - most));
    return `${top + 1} to ${top + most} of ${total}; scroll here, or filter`;
  }
  function scrollbar(drawing, name) {
    const region = drawing.regions[name];
    region.h = drawing.y - region.y;
    if (region.total <= region.shown) return;
    const h = Math.max(region.h * region.shown / region.total, 18);
    const y = region.y + (region.h - h) * region.top / Math.max(region.total - region.shown, 1);
    drawing.rect(drawing.right + 8, region.y, 6, region.h, drawing.colours.band, { silent: true });
    drawing.rect(drawing.right + 8, y, 6, h, drawing.colours.faint, { silent: true });
  }

  const matches = (view, ...texts) => !view.filter || texts.some(text => String(text).toLowerCase().includes(view.filter));

  function drawMembers(drawing) {
    const { doc, view, colours } = drawing;
    const rows = doc.slots.map((lane, slot) => ({ lane, slot })).filter(({ lane }) => matches(view, lane.name, lane.client_host, lane.client_id)
      && lane.tenures.some(one => drawing.span(one.since_ms, one.until_ms)));
    drawing.section("MEMBERS", pageNote(drawing, "members", SHOWN.members, rows.length));
    if (!rows.length) {
      drawing.text(drawing.left, drawing.y + 8, view.filter ? "no member fits the filter here" : Unread.emptyText(drawing, "no member in this time"), { fill: colours.faint });
      drawing.y += 18;
    }
    const begin = drawing.y, shown = paged(drawing, "members", rows, SHOWN.members);
    const width = narrowest(1300, one => shown.reduce((all, { lane }) => all + joined(drawing, lane.holdings, one).length, 0));
    const apart = narrowest(400, one => shown.reduce((all, { lane }) => all + Math.min(lane.tenures.length + lane.marks.length, (drawing.right - drawing.left) / one), 0));
    for (const { lane, slot } of shown) {
      drawLane(drawing, lane, slot, width, Math.max(apart, 7));
      drawing.y += ROW.member;
    }
    if (rows.length) scrollbar(drawing, "members");
    drawTrace(drawing, begin);
  }

  // A bar of several members is one that was summed up.
  const who = stay => stay.members > 1 ? `${stay.members} members in turn, too short to be shown one by one` : `member id ${safe(stay.member_id, 60)}`;
  function drawLane(drawing, lane, slot, width, apart) {
    const { view, colours, doc } = drawing, y = drawing.y, h = ROW.member - 5, colour = ownerColour(slot);
    const dimmed = view.slot !== null && view.slot !== slot, severityOf = blame => (doc.conditions[blame.condition] || { severity: "INFO" }).severity, blamed = worst(lane.blames.map(severityOf));
    drawing.lanes.set(slot, y + h / 2);
    drawing.label(y + h / 2, safe(lane.name, 40), { fill: blamed ? colours[SEVERITY[blamed]] : colours.text, bold: view.slot === slot,
      tip: [safe(lane.name), ...(lane.instance_id ? [`instance id ${safe(lane.instance_id)}`] : []), `client id ${safe(lane.client_id)}`, `host ${safe(lane.client_host)}`,
        view.slot === slot ? "click: show all colours" : "click: show only its partitions in colour"], act: { slot } });
    drawing.rect(drawing.left, y + h / 2, drawing.right - drawing.left, 1, colours.line, { silent: true });
    for (const stay of lane.tenures) {
      const span = drawing.span(stay.since_ms, stay.until_ms);
      if (span) drawing.rect(span[0], y + h / 2 - 3, span[1] - span[0], 6, colour, { opacity: dimmed ? 0.25 : 0.45, silent: true });
    }
    for (const group of joined(drawing, lane.holdings, width)) {
      const since = group.spans[0][0], until = group.spans[group.spans.length - 1][1], room = group.b - group.a, counts = group.spans.map(one => one[2]);
      const least = Math.min(...counts), most = Math.max(...counts), many = group.spans.length > 1;
      const stay = many ? null : lane.tenures.find(one => one.since_ms <= since && (one.until_ms === null || one.until_ms >= until));
      const tip = [safe(lane.name), least === most ? counted(most, "partition") : `${least} to ${most} partitions`, `${exact(since, view.zone)} to ${exact(until, view.zone)} (${lasted(until - since)})`,
        ...(many ? [`${group.spans.length} changes; zoom in`] : []), ...(stay ? [who(stay)] : []),
        ...(stay && stay.until_ms === until ? [`then ${safe(stay.ended)}`] : [])];
      drawing.rect(group.a, y, room, h, colour, { opacity: dimmed ? 0.3 : most ? 1 : 0.4, radius: 2, gap: true, tip, act: { slot } });
      const text = most < 0 ? "" : least === most ? counted(most, "partition") : `${least} to ${most}`, short = least === most ? String(most) : "";
      const shown = room > text.length * 6.3 + 10 ? text : room > 26 ? short : "";
      if (shown) drawing.text(group.a + 6, y + h / 2, shown, { fill: luminance(colour) > 150 ? "#10151c" : "#ffffff", opacity: dimmed ? 0.5 : 1, silent: true });
    }
    let lastEnd = -100;
    const next = new Map(lane.tenures.map((stay, at) => [stay, lane.tenures[at + 1]]));
    for (const stay of lane.tenures) {
      if (stay.until_ms === null || !drawing.inside(stay.until_ms) || drawing.x(stay.until_ms) - lastEnd < apart) continue;
      const x = lastEnd = drawing.x(stay.until_ms);
      const after = next.get(stay), c = stay.severity === "INFO" ? colours.text : colours[SEVERITY[stay.severity]];
      if (after && after.since_ms === stay.until_ms) {
        drawing.add({ kind: "path", d: `M${x - 4} ${y + h / 2}L${x} ${y + h / 2 - 5}L${x + 4} ${y + h / 2}L${x} ${y + h / 2 + 5}Z`, fill: colours.paper, stroke: c, width: 1.3,
          tip: [`${safe(lane.name)} is another process from here on`, ...(stay.reason ? [`the one before ${safe(stay.ended)}`] : []), exact(stay.until_ms, view.zone), who(after), ...(stay.repeats ? [`no event of its own: it repeats the one of ${stay.event === null ? "before" : exact(doc.events[stay.event].time_ms, view.zone)} within a minute`] : [])], act: { event: stay.event } });
        continue;
      }
      drawing.add({ kind: "path", d: `M${x - 4} ${y + h / 2 - 4}L${x + 4} ${y + h / 2 + 4}M${x + 4} ${y + h / 2 - 4}L${x - 4} ${y + h / 2 + 4}`, stroke: c, width: 2, halo: colours.paper,
        tip: [`${safe(lane.name)} ${safe(stay.ended)}`, exact(stay.until_ms, view.zone)], act: { event: stay.event } });
    }
    for (const blame of lane.blames) {
      const span = drawing.span(blame.since_ms, blame.until_ms, doc.events_until_ms);
      if (!span) continue;
      const until = blame.until_ms === null ? doc.events_until_ms : blame.until_ms;
      drawing.add({ kind: "rect", x: span[0], y: y - 2, w: Math.max(span[1] - span[0], 3), h: h + 4, fill: "transparent", stroke: colours[SEVERITY[severityOf(blame)]], width: 2, dash: !blame.proven, radius: 3,
        tip: [safe(lane.name), safe(blame.text), blame.proven ? "the log proves it" : "inferred, not proven (dashed)", `${exact(blame.since_ms, view.zone)} to ${exact(until, view.zone)} (${lasted(until - blame.since_ms)})`], act: { go: [blame.since_ms, until] } });
    }
    // The group waits for the assignment of its leader.
    for (const flag of doc.generations) {
      const span = flag.leader_slot === slot ? drawing.span(flag.at_ms - flag.sync_ms, flag.at_ms) : null;
      if (span) drawing.add({ kind: "rect", x: span[0], y: y + h - 2, w: Math.max(span[1] - span[0], 3), h: 4, fill: colours.info, tip: [safe(lane.name), ...leaderTip(flag), `${exact(flag.at_ms - flag.sync_ms, view.zone)} to ${exact(flag.at_ms, view.zone)}`], act: { event: flag.event } });
    }
    drawMarks(drawing, lane, y, h, apart);
  }

  const PLAIN = new Set(["member.left", "member.joined", "static.replaced"]);
  function drawMarks(drawing, lane, y, h, apart) {
    const { view, colours } = drawing;
    let last = -100;
    for (const mark of lane.marks) {
      if (!drawing.inside(mark.at_ms) || PLAIN.has(mark.name)) continue;
      const x = drawing.x(mark.at_ms);
      if (x - last < apart) continue;
      last = x;
      const d = `M${x - 3} ${y + h}L${x + 3} ${y + h}L${x} ${y + h - 6}Z`;
      drawing.add({ kind: "path", d, fill: colours.paper, stroke: colours.text, width: 1.3, tip: [safe(mark.name.replace(".", " ")), safe(lane.name), exact(mark.at_ms, view.zone)], act: { event: mark.event } });
    }
  }

  function drawTrace(drawing, begin) {
    const { doc, view, colours } = drawing;
    const shown = doc.trace.filter(mark => drawing.inside(mark.at_ms) && (mark.slot === null || drawing.lanes.has(mark.slot)));
    if (!doc.trace.length) return;
    const step = Math.max(1, Math.ceil(shown.length / 900));
    shown.forEach((mark, index) => {
      if (index % step && !mark.failed) return;
      const x = drawing.x(mark.at_ms), y = mark.slot === null ? begin - 5 : drawing.lanes.get(mark.slot) + 6;
      drawing.rect(x - 0.5, y, mark.failed ? 2 : 1, 6, mark.failed ? colours.bad : colours.text, { opacity: mark.failed ? 1 : 0.7, tip: [`trace: ${mark.kind}`, safe(mark.text), exact(mark.at_ms, view.zone)] });
    });
  }

  // A topic with many partitions is one row of shares until it is unfolded.
  const FOLD_FROM = 24;
  function partitionRows(doc, view) {
    const rows = [];
    for (const [index, topic] of doc.topics.entries()) {
      const fits = topic.partitions.filter(row => matches(view, `${topic.topic}-${row.partition}`));
      if (!fits.length) continue;
      const folded = isFolded(doc, view, topic, index);
      rows.push({ kind: "topic", topic, index, folded });
      if (folded) rows.push({ kind: "shares", topic, index });
      else for (const row of fits) rows.push({ kind: "row", topic, index, row });
    }
    return rows;
  }
  function isFolded(doc, view, topic, index) {
    if (view.filter) return false;
    const total = doc.topics.reduce((sum, one) => sum + one.partitions.length, 0);
    return view.folds.has(index) ? view.folds.get(index) : topic.partitions.length > FOLD_FROM || (total > 80 && topic.partitions.length > 8);
  }

  function drawPartitions(drawing) {
    const { doc, view, colours } = drawing, rows = partitionRows(doc, view);
    const total = doc.topics.reduce((sum, topic) => sum + topic.partitions.length, 0);
    drawing.section("PARTITIONS", pageNote(drawing, "partitions", SHOWN.partitions, rows.length) || (total ? `${counted(total, "partition")}, coloured by owner; pale: no commit for unusually long` : ""));
    if (!rows.length) {
      drawing.text(drawing.left, drawing.y + 8, view.filter ? "no partition fits the filter" : Unread.emptyText(drawing, "no partition is known"), { fill: colours.faint });
      drawing.y += 18;
      return;
    }
    const shown = paged(drawing, "partitions", rows, SHOWN.partitions);
    const plain = shown.filter(row => row.kind === "row"), tall = plain.length <= 16;
    const budget = 1700, merge = mergeWidth(drawing, plain, budget);
    let begin = drawing.y;
    for (const row of shown) {
      if (row.kind === "topic") { veil(drawing, begin); drawTopic(drawing, row); begin = drawing.y; }
      else if (row.kind === "shares") drawShares(drawing, row);
      else drawRibbon(drawing, row, merge, tall ? ROW.wide : ROW.partition);
    }
    veil(drawing, begin);
    scrollbar(drawing, "partitions");
  }

  // Owners of a classic group do not work while it rebalances: the rows from a height on are paler then.
  function veil(drawing, begin) {
    const { doc, colours } = drawing, h = drawing.y - begin;
    let drawn = 0;
    for (const bar of h > 0 ? doc.states : []) {
      if (REST.has(bar.state) || bar.group_type !== "classic") continue;
      const span = drawing.span(bar.since_ms, bar.until_ms);
      if (span && span[1] - span[0] > 1.5 && drawn++ < 150) drawing.rect(span[0], begin, span[1] - span[0], h, colours.veil, { silent: true });
    }
  }

  // The width below which neighbours are drawn as one, so that there are not too many shapes.
  function mergeWidth(drawing, rows, budget) {
    for (let width = 1; ; width *= 2) {
      let count = 0;
      for (const { row } of rows) count += merged(drawing, row, width).length + joined(drawing, row.pauses, width).length;
      if (count <= budget || width > 64) return width;
    }
  }
  function merged(drawing, row, width) {
    const found = [], { since, until } = drawing.view;
    for (let at = firstAfter(row.owners, since); at < row.owners.length && row.owners[at][0] < until; at++) {
      const [from, to, slot, changes] = row.owners[at], [a, b] = drawing.span(from, to) || [0, 0], last = found[found.length - 1];
      const many = changes && slot === -3 ? changes : 1;
      if (last && b - a < width && last.narrow && a - last.b < width && last.slot !== slot) {
        last.b = b; last.to = to; last.changes += many; last.slot = -3;
      } else if (last && last.slot === slot && a - last.b < 0.5 && slot !== -2) {
        last.b = b; last.to = to; last.narrow = last.b - last.a < width;
      } else found.push({ a, b, from, to, slot, narrow: b - a < width, changes: slot === -2 ? changes : many });
    }
    return found;
  }
  function ownerName(doc, slot, changes) {
    if (slot >= 0) return safe(doc.slots[slot].name);
    return slot === -1 ? "a member without a lane here" : slot === -2 ? `shared by ${counted(changes, "member")}` : `${changes} owners in turn; zoom in`;
  }

  function drawTopic(drawing, row) {
    const { colours } = drawing, { topic } = row, size = topic.partitions.length;
    drawing.label(drawing.y + 8, `${row.folded ? "▸" : "▾"} ${safe(topic.topic, 60)}`, { bold: true, fill: colours.text,
      tip: [safe(topic.topic), counted(size, "partition"), row.folded ? "click: show each partition" : "click: fold"], act: { fold: row.index, folded: row.folded } });
    drawing.text(drawing.left, drawing.y + 8, counted(size, "partition") + (row.folded ? ": share of each owner" : ""), { fill: colours.faint, silent: true });
    drawing.y += 17;
  }

  function drawRibbon(drawing, { topic, row }, width, height) {
    const { doc, view, colours } = drawing, y = drawing.y, h = height - 1.5, name = `${safe(topic.topic, 80)}-${row.partition}`;
    drawing.label(y + h / 2, String(row.partition), { size: 10 });
    const spans = merged(drawing, row, width);
    for (const one of spans) {
      const dimmed = view.slot !== null && view.slot !== one.slot, fill = one.slot >= 0 ? ownerColour(one.slot) : colours.mixed;
      drawing.rect(one.a, y, one.b - one.a, h, fill, { opacity: dimmed ? 0.18 : one.slot === -2 ? Math.min(0.35 + one.changes * 0.1, 1) : 1, gap: true,
        tip: [name, ownerName(doc, one.slot, one.changes), `${exact(one.from, view.zone)} to ${exact(one.to, view.zone)} (${lasted(one.to - one.from)})`], act: one.slot >= 0 ? { slot: one.slot } : { go: [one.from, one.to] } });
    }
    for (const group of joined(drawing, row.pauses, width)) {
      const since = group.spans[0][0], until = group.spans[group.spans.length - 1][1];
      if (group.b - group.a < width) continue;
      drawing.rect(group.a, y, group.b - group.a, h, colours.veil, { act: { go: [since, until] },
        tip: [name, group.spans.length > 1 ? `${group.spans.length} pauses of commits` : "no commit for unusually long", `${exact(since, view.zone)} to ${exact(until, view.zone)} (${lasted(until - since)})`,
        ...drawing.doc.quiet_times.filter(quiet => quiet.cost.since_ms < until && quiet.cost.until_ms > since).map(quiet => quiet.cost.text)] });
    }
    for (const bar of drawing.about.get(`${topic.topic}-${row.partition}`) || []) {
      const span = drawing.span(bar.since_ms, bar.until_ms, doc.events_until_ms);
      if (span) drawing.add({ kind: "rect", x: span[0], y: y - 1, w: Math.max(span[1] - span[0], 3), h: h + 2, fill: "transparent", stroke: colours[SEVERITY[bar.severity]], width: 1.6,
        tip: [name, safe(bar.name.replace(".", " ")), safe(bar.text, 400)], act: { go: [bar.since_ms, bar.until_ms === null ? doc.events_until_ms : bar.until_ms] } });
    }
    drawing.y += height;
  }

  const shareCache = new WeakMap();
  // [[since, {slot: partitions}]]: how many partitions each slot owns from a moment on.
  function shares(topic) {
    if (shareCache.has(topic)) return shareCache.get(topic);
    const changes = [];
    for (const row of topic.partitions) for (const [since, until, slot] of row.owners) changes.push([since, slot, 1], [until, slot, -1]);
    changes.sort((a, b) => a[0] - b[0]);
    const steps = [], now = new Map();
    for (const [at, slot, amount] of changes) {
      now.set(slot, (now.get(slot) || 0) + amount);
      if (!now.get(slot)) now.delete(slot);
      if (steps.length && steps[steps.length - 1][0] === at) steps[steps.length - 1][1] = new Map(now);
      else steps.push([at, new Map(now)]);
    }
    shareCache.set(topic, steps);
    return steps;
  }
  function drawShares(drawing, { topic, index }) {
    const { doc, view, colours } = drawing, y = drawing.y, h = ROW.folded - 5, steps = shares(topic), size = topic.partitions.length;
    drawing.rect(drawing.left, y, drawing.right - drawing.left, h, colours.band, { silent: true });
    let lastX = -10, drawn = 0;
    for (let at = 0; at < steps.length; at++) {
      const since = steps[at][0], until = at + 1 < steps.length ? steps[at + 1][0] : doc.known_until_ms, span = drawing.span(since, until);
      if (!span || (span[1] - span[0] < 1 && span[0] - lastX < 1)) continue;
      lastX = span[1];
      const held = [...steps[at][1]].sort((a, b) => a[0] - b[0]), total = held.reduce((sum, one) => sum + one[1], 0), each = held.length > 24 || drawn > 900;
      let top = y + h;
      const summed = each ? [[-3, total]] : held;
      for (const [slot, count] of summed) {
        const high = h * count / Math.max(size, total), dimmed = view.slot !== null && view.slot !== slot;
        top -= high; drawn++;
        drawing.rect(span[0], top, span[1] - span[0], high, slot >= 0 ? ownerColour(slot) : colours.mixed, { opacity: dimmed ? 0.18 : 1, gap: span[1] - span[0] > 3,
          tip: [safe(topic.topic), slot === -3 ? `${counted(held.length, "owner")}, ${count} of ${counted(size, "partition")} have one` : `${ownerName(doc, slot, count)}: ${count} of ${counted(size, "partition")}`, `${exact(since, view.zone)} to ${exact(until, view.zone)}`], act: slot >= 0 ? { slot } : { fold: index, folded: true } });
      }
    }
    drawing.y += ROW.folded;
  }

  function drawCommits(drawing) {
    const { doc, view, colours } = drawing, topics = doc.topics.filter(topic => topic.commits.length);
    const shown = topics.length <= 5 ? topics : [...topics].sort((a, b) => sum(b.commits) - sum(a.commits)).slice(0, 4);
    drawing.section("COMMITS", topics.length ? `per second, in buckets of ${lasted(doc.bucket_ms)}` : "");
    const top = drawing.y;
    if (!topics.length) { drawing.text(drawing.left, drawing.y + 8, Unread.emptyText(drawing, Unread.lacks(doc, view.since, view.until) ? "no commit of this time is left in the log" : "no commit in this time"), { fill: colours.faint }); drawing.y += 18; }
    const rows = shown.map(topic => [safe(topic.topic, 60), topic.commits]);
    if (topics.length > shown.length) {
      const rest = topics.filter(topic => !shown.includes(topic)), length = Math.max(...rest.map(topic => topic.commits.length));
      rows.push([`${rest.length} other topics`, Array.from({ length }, (_, at) => rest.reduce((all, topic) => all + (topic.commits[at] || 0), 0))]);
    }
    for (const [name, counts] of rows) drawRate(drawing, name, counts);
    Unread.drawLacking(drawing, top, drawing.y);
    drawChanges(drawing);
  }
  const sum = numbers => numbers.reduce((all, one) => all + one, 0);

  function drawRate(drawing, name, counts) {
    const { doc, view, colours } = drawing, y = drawing.y, h = ROW.rate - 8, width = doc.bucket_ms;
    const first = Math.max(0, Math.floor((view.since - doc.since_ms) / width)), last = Math.min(counts.length, Math.ceil((view.until - doc.since_ms) / width));
    const most = Math.max(1, ...counts.slice(first, last));
    drawing.label(y + h / 2, name);
    drawing.rect(drawing.left, y + h, drawing.right - drawing.left, 1, colours.line, { silent: true });
    const points = [];
    for (let at = first; at < last; at++) {
      const span = drawing.span(doc.since_ms + at * width, Math.min(doc.since_ms + (at + 1) * width, doc.known_until_ms));
      if (span) points.push([span[0], y + h - h * counts[at] / most], [span[1], y + h - h * counts[at] / most]);
    }
    if (points.length) {
      const line = points.map(([x, at]) => `${x.toFixed(1)} ${at.toFixed(1)}`).join("L");
      drawing.add({ kind: "path", d: `M${points[0][0].toFixed(1)} ${y + h}L${line}L${points[points.length - 1][0].toFixed(1)} ${y + h}Z`, fill: colours.rateFill, silent: true });
      drawing.add({ kind: "path", d: `M${line}`, stroke: colours.rate, width: 1.2, silent: true });
    }
    const rate = most / (width / 1000);
    drawing.text(drawing.right + 3, y + 3, rate >= 10 ? String(Math.round(rate)) : rate.toPrecision(2), { size: 9, fill: colours.faint, silent: true });
    drawing.add({ kind: "rect", x: drawing.left, y, w: drawing.right - drawing.left, h, fill: "transparent", hover: ms => {
      const at = Math.floor((ms - doc.since_ms) / width), count = counts[at] || 0, from = doc.since_ms + at * width, length = Math.min(from + width, doc.known_until_ms) - from;
      if (length <= 0) return [name, `not known after ${exact(doc.known_until_ms, view.zone)}`];
      if (Unread.lacks(doc, from, from + length)) return [name, `${counted(count, "commit")} in ${lasted(length)} left in the log, perhaps not all`, Unread.LACKING, `from ${clock(from, view.zone)}`];
      return [name, `${counted(count, "commit")} in ${lasted(length)} (${(count / (length / 1000)).toPrecision(3)} per second)`, `from ${clock(from, view.zone)}`];
    } });
    drawing.y += ROW.rate;
  }

  function drawChanges(drawing) {
    const { doc, view, colours } = drawing, shown = doc.offset_changes.filter(one => drawing.inside(one.at_ms));
    if (doc.offset_changes.length) {
      const y = drawing.y, groups = new Map();
      for (const one of shown) {
        const key = `${one.name} ${Math.round(drawing.x(one.at_ms) / 9)}`;
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(one);
      }
      drawing.label(y + 9, "changed offsets");
      let edge = -1;
      for (const group of groups.values()) {
        const one = group[0], x = drawing.x(one.at_ms);
        const up = one.new !== null && one.old !== null && one.new > one.old, c = colours[SEVERITY[worst(group.map(change => change.severity))]];
        const d = one.new === null ? `M${x - 4} ${y + 5}L${x + 4} ${y + 13}M${x + 4} ${y + 5}L${x - 4} ${y + 13}` : up ? `M${x} ${y + 15}L${x} ${y + 3}M${x - 4} ${y + 7}L${x} ${y + 3}L${x + 4} ${y + 7}` : `M${x} ${y + 3}L${x} ${y + 15}M${x - 4} ${y + 11}L${x} ${y + 15}L${x + 4} ${y + 11}`;
        const each = group.slice(0, 8).map(change => `${safe(change.topic, 60)}-${change.partition}: ${change.old === null ? "none" : change.old} → ${change.new === null ? "none" : change.new}`);
        drawing.add({ kind: "path", d, stroke: c, width: 2, tip: [safe(one.name.replace(".", " ")), exact(one.at_ms, view.zone), ...each, ...(group.length > 8 ? [`and ${group.length - 8} more`] : [])], act: { event: one.event } });
        const text = one.new === null ? `${one.name.split(".")[1]}${group.length > 1 ? ` ×${group.length}` : ""}` : `${one.old === null ? "none" : one.old} → ${one.new}${group.length > 1 ? ` and ${group.length - 1} more` : ""}`;
        if (x + 8 > edge && x + 8 + text.length * 6 < drawing.right) { drawing.text(x + 8, y + 9, text, { fill: c, size: 10, silent: true }); edge = x + 14 + text.length * 6; }
      }
      drawing.y += 20;
    }
    drawDeadlines(drawing);
  }

  function drawDeadlines(drawing) {
    const { doc, view, colours } = drawing;
    if (!doc.deadlines.length) return;
    const y = drawing.y, here = doc.deadlines.filter(one => drawing.inside(one.at_ms)), ahead = doc.deadlines.filter(one => one.at_ms > view.until);
    drawing.label(y + 8, "expiry");
    for (const one of here) {
      const x = drawing.x(one.at_ms);
      drawing.add({ kind: "path", d: `M${x} ${y + 2}L${x} ${y + 14}`, stroke: colours.warn, width: 2, tip: ["committed offsets may be removed from here on", `${safe(one.topic)} ${one.partitions}`, `${day(one.at_ms, view.zone)} ${clock(one.at_ms, view.zone)}`] });
    }
    if (ahead.length) {
      const first = ahead[0], tip = ["the next deadlines", ...ahead.slice(0, 10).map(one => `${day(one.at_ms, view.zone)} ${clock(one.at_ms, view.zone)}: ${safe(one.topic, 60)} ${one.partitions}`), ...(ahead.length > 10 ? [`and ${ahead.length - 10} more`] : [])];
      drawing.text(drawing.right, y + 8, `${drawing.left < LABEL ? "" : "first deadline "}${day(first.at_ms, view.zone)} ${clock(first.at_ms, view.zone)}, ${lasted(first.at_ms - doc.known_until_ms)} after ${doc.known_until_ms < doc.until_ms ? "what is known" : "the end"} →`, { align: "right", fill: colours.muted, tip });
    }
    drawing.y += 18;
  }

  function drawConditions(drawing) {
    const { doc, view, colours } = drawing;
    drawing.section("CONDITIONS");
    const names = [...new Set(doc.conditions.map(bar => bar.name))];
    const weight = name => Math.max(...doc.conditions.filter(bar => bar.name === name).map(bar => SEVERITIES.indexOf(bar.severity)));
    names.sort((a, b) => weight(b) - weight(a) || (a < b ? -1 : 1));
    if (!names.length) { drawing.text(drawing.left, drawing.y + 8, "none", { fill: colours.faint }); drawing.y += 18; }
    for (const name of names) {
      const y = drawing.y, h = ROW.condition - 5;
      drawing.label(y + h / 2, safe(name, 40), { fill: colours.text });
      drawing.rect(drawing.left, y + h / 2, drawing.right - drawing.left, 1, colours.line, { silent: true });
      let edge = -10;
      for (const bar of doc.conditions) {
        const until = bar.until_ms === null ? doc.events_until_ms : bar.until_ms, span = bar.name === name ? drawing.span(bar.since_ms, until) : null;
        if (!span || Math.max(span[1], span[0] + 3) < edge + 2) continue;
        edge = Math.max(span[1], span[0] + 3);
        if (bar.until_ms === null && span[1] > drawing.left + 8) drawing.add({ kind: "path", d: `M${span[1]} ${y - 1}L${span[1] + 8} ${y + h / 2}L${span[1]} ${y + h + 1}Z`, fill: colours[SEVERITY[bar.severity]], tip: [`${safe(name)} holds at ${exact(until, view.zone)}`] });
        drawing.rect(span[0], y, Math.max(span[1] - span[0], 3), h, colours[SEVERITY[bar.severity]], { radius: 2, gap: true,
          tip: [`${safe(name)}, ${bar.severity}`, ...(bar.subject ? [safe(bar.subject)] : []), safe(bar.text, 400), `${exact(bar.since_ms, view.zone)} to ${bar.until_ms === null ? `${exact(until, view.zone)} and still held` : exact(until, view.zone)} (${lasted(until - bar.since_ms)})`, "click: zoom to it"], act: { go: [bar.since_ms, until], event: bar.events[0] } });
      }
      drawing.y += ROW.condition;
    }
  }

  function drawEvents(drawing) {
    const { doc, view, colours } = drawing;
    drawing.section("EVENTS");
    const y = drawing.y, cells = new Map();
    doc.events.forEach((event, index) => {
      if (!drawing.inside(event.time_ms)) return;
      const key = Math.round(drawing.x(event.time_ms) / 3), cell = cells.get(key) || { events: [], severity: "INFO", first: index };
      cell.events.push(event);
      cell.severity = worst([event.severity, cell.severity]);
      cells.set(key, cell);
    });
    for (const [key, cell] of cells) {
      const h = Math.min(6 + cell.events.length * 2, 16);
      const names = [...new Set(cell.events.map(event => event.name))].slice(0, 6);
      drawing.rect(key * 3 - 1, y + 16 - h, 2, h, colours[SEVERITY[cell.severity]], { tip: [counted(cell.events.length, "event"), exact(cell.events[0].time_ms, view.zone), ...names.map(name => safe(name.replace(".", " ")))], act: { event: cell.first } });
    }
    drawing.rect(drawing.left, y + 16, drawing.right - drawing.left, 1, colours.line, { silent: true });
    drawing.y += 20;
  }

  // All shapes of the picture in this view, and its height.
  function draw(doc, view) {
    const drawing = new Drawing(doc, view);
    drawing.lanes = new Map(); drawing.y += Marks.secondLine(drawing);
    // Conditions by their subject: that of a partition is `topic-partition`.
    drawing.about = new Map();
    for (const bar of doc.conditions) if (bar.subject) drawing.about.set(bar.subject, [...(drawing.about.get(bar.subject) || []), bar]);
    drawStates(drawing); drawGenerations(drawing); WhatIf.draw(drawing, ROW.condition, joined); drawMembers(drawing); drawPartitions(drawing);
    drawCommits(drawing);
    const told = drawing.y;
    drawConditions(drawing); drawEvents(drawing);
    const body = drawing.items;
    drawing.items = [];
    drawHoles(drawing, drawing.y); Unread.drawGaps(drawing, TOP, told, drawing.y);
    drawing.items.push(...body);
    Marks.drawStillWrong(drawing, TOP, drawing.y);
    drawing.bottom = drawing.y; drawing.y = Marks.drawLegend(drawing, drawing.y + 34);
    drawing.dropped = Math.max(drawing.items.length - MOST_ITEMS, 0);
    if (drawing.dropped) drawing.items.length = MOST_ITEMS;
    drawing.height = drawing.y + 6;
    return drawing;
  }

  function shape(item) {
    const style = { opacity: item.opacity === undefined ? 1 : item.opacity };
    if (item.kind === "text") {
      Object.assign(style, { text: item.text, x: item.x, y: item.y, fill: item.fill, fontSize: item.size, fontWeight: item.bold ? 600 : 400, fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", textAlign: item.align || "left", textVerticalAlign: "middle" });
      if (item.width) Object.assign(style, { width: item.width, overflow: "truncate", ellipsis: "…" });
      return { type: "text", style, silent: !item.tip && !item.act };
    }
    Object.assign(style, { fill: item.fill === "transparent" ? "rgba(0,0,0,0)" : item.fill || "none", stroke: item.stroke || "none", lineWidth: item.stroke ? item.width : 0, lineDash: item.dash ? [4, 3] : null });
    const silent = item.silent || !(item.tip || item.act || item.hover);
    if (item.kind === "rect") {
      // A hair between neighbours, where there is room for it.
      const width = item.gap && item.w > 3 ? item.w - 1 : item.w;
      return { type: "rect", silent, style, shape: { x: item.x, y: item.y, width, height: item.h, r: width > 5 ? item.radius || 0 : 0 } };
    }
    const path = { type: "path", silent, style, shape: { pathData: item.d } };
    if (!item.halo) return path;
    return { type: "group", children: [{ ...path, silent: true, style: { ...style, stroke: item.halo, lineWidth: item.width + 3 } }, path] };
  }

  // ECharts gets one custom series whose items are the shapes, and the time axis.
  function option(drawing) {
    const { view, colours, items } = drawing, span = view.until - view.since;
    const axis = {
      type: "time", min: view.since, max: view.until, axisLine: { show: false }, axisTick: { show: true, lineStyle: { color: colours.line } },
      splitLine: { show: true, lineStyle: { color: colours.line, width: 1 } }, splitNumber: Math.max(3, Math.floor((drawing.right - drawing.left) / 130)),
      axisLabel: { color: colours.muted, fontSize: 11, hideOverlap: true, formatter: ms => span < 20000 ? exact(ms, view.zone) : span < 3 * 3600e3 ? clock(ms, view.zone) : parts(ms, view.zone).slice(3, 6).every(one => !one) ? day(ms, view.zone) : clock(ms, view.zone).slice(0, 5) },
    };
    return {
      animation: false, useUTC: view.zone !== "local", backgroundColor: colours.paper, textStyle: { fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" },
      grid: { left: drawing.left, right: view.width - drawing.right, top: TOP - 8, bottom: drawing.height - drawing.bottom },
      xAxis: [{ ...axis, position: "top" }, { ...axis, position: "bottom", splitLine: { show: false } }],
      yAxis: { type: "value", min: 0, max: 1, show: false },
      series: [{ type: "custom", coordinateSystem: "none", clip: false, animation: false, progressive: 0, data: items.map((_, index) => index), renderItem: params => shape(items[params.dataIndex]) }],
    };
  }

  function firstView(doc, width, more) {
    return { since: doc.since_ms, until: doc.until_ms, width, dark: false, zone: "utc", folds: new Map(), tops: {}, slot: null, filter: "", end: null, gap: null, eventsGap: null, ...more };
  }

  // The whole picture as SVG, without a page.
  function svg(doc, width, dark) {
    const drawing = draw(doc, firstView(doc, width, { dark })), head = 30, statements = doc.verdict.flatMap(one => one.first ? [one.text, `Do first (${one.first.about}): ${one.first.text}`] : [one.text]);
    const lines = [safe(doc.group_id, 80) + `  ${day(doc.since_ms, "utc")} ${clock(doc.since_ms, "utc")} to ${day(doc.until_ms, "utc")} ${clock(doc.until_ms, "utc")} UTC`, ...statements.slice(0, 4).map(text => safe(text, 200))];
    const shift = head + lines.length * 18;
    const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height: drawing.height + shift });
    const all = option(drawing);
    all.grid.top += shift;
    const items = drawing.items, colours = drawing.colours;
    all.series[0].renderItem = params => ({ type: "group", y: shift, children: [shape(items[params.dataIndex])] });
    all.graphic = lines.map((text, at) => ({ type: "text", silent: true, style: { text, x: 10, y: 14 + at * 19, fill: at ? colours.text : colours.muted, fontSize: at === 1 ? 14 : 12, fontWeight: at === 1 ? 600 : 400, fontFamily: "sans-serif" } }));
    chart.setOption(all);
    const text = chart.renderToSVGString();
    chart.dispose();
    return text;
  }
  return { draw, option, firstView, svg, partitionRows, LEFT: LABEL, RIGHT, MOST_ITEMS };
})();
