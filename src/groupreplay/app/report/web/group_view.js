// The view of one group: its head, its picture that is zoomed, moved and selected in, and the table of its events.
// A report has one document; a live page reads it again, and moves its end with the time.
"use strict";
const GroupView = (() => {
  const { safe, clock, lasted, zoneName, counted, rangeText } = Format;
  const { byId, element, button, copy, isLink } = Elements;
  const SMALLEST_MS = 1000;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hooks = { moved: () => {} };
  const state = { doc: null, view: null, zone: "utc", selection: null, marked: null, rows: EventTable.ROWS, printing: false, newestFirst: false, end_ms: null };
  let drawing = null, chart = null;

  // ---- head

  function showHead() {
    byId("title").textContent = safe(state.doc.group_id) || "(empty group id)";
    document.title = `${safe(state.doc.group_id, 60)}: what happened`;
    const types = state.doc.states.map(bar => bar.group_type).filter((type, at, all) => at === 0 || type !== all[at - 1]);
    byId("when").textContent = `${types.length > 1 ? `first ${types.slice(0, 6).join(", then ")}` : state.doc.group_type} group, ${rangeText(state.doc.since_ms, ends(), state.zone)} ${zoneName(state.doc.since_ms, state.zone)} (${lasted(ends() - state.doc.since_ms)})`;
    const verdict = byId("verdict");
    verdict.className = `verdict ${state.doc.verdict[0].tone}`;
    verdict.replaceChildren(...state.doc.verdict.flatMap((statement, place) => {
      const line = element("p", null, { class: statement.tone });
      line.append(element("span", sentence(statement.parts)));
      if (statement.since_ms !== null) line.append(button("Show", () => zoomTo(statement.since_ms, statement.until_ms, 0.25), { "aria-label": "Show this time in the picture" }));
      return statement.links.length || statement.gaps.length ? [line, chain(statement, place === 0)] : [line];
    }));
    const unread = Unread.ofLog(state.doc), warned = new Set(["history: partial"]);
    const badges = [`evidence: ${state.doc.basis.evidence.join(", ") || "none"}`];
    if (unread) warned.add(badges[badges.push(`log: ${unread.since_ms === null ? "" : `read up to ${clock(unread.since_ms, state.zone)}, then `}${Unread.WORDS[unread.reason]}`) - 1]);
    if (!unread || unread.since_ms !== null || state.doc.basis.history === "partial") badges.push(`history: ${state.doc.basis.history}`);
    badges.push(askedText(state.doc));
    if (state.doc.slots.some(lane => lane.blames.some(blame => !blame.proven))) badges.push("who is to blame is inferred");
    for (const [name, value] of Object.entries(state.doc.basis.assumed)) warned.add(badges[badges.push(`assumed: ${safe(name, 60).replace(/_ms$/, "").replace(/_/g, " ")} ${lasted(value)}`) - 1]);
    if (state.doc.basis.catch_up) badges.push(`${state.doc.basis.catch_up} events recorded late`);
    if (state.doc.source.redacted.length) badges.push(`redacted: ${state.doc.source.redacted.join(", ")}`);
    byId("badges").replaceChildren(...badges.map(text => element("span", text, { class: warned.has(text) ? "badge warn" : "badge" })));
    const remarks = byId("remarks");
    remarks.classList.toggle("hidden", !state.doc.remarks.length);
    remarks.replaceChildren(element("summary", `${counted(state.doc.remarks.length, "remark")}: what is missing, what is not, and what is in sums only`), element("ul"));
    remarks.lastChild.append(...state.doc.remarks.map(one => element("li", safe(one.text, 600))));
    Present.show(state); Advice.show(state, markEvent);
    remarks.open = state.doc.remarks.length > 0 && state.doc.remarks.length < 3;
  }

  // A text with its times in the zone of the page.
  const sentence = parts => Format.sentence(parts, state.doc, state.zone);

  // The diagnosis of a sentence: the cause, what it costs and what to do first are always visible, the gravest one is open.
  const closed = new Map();
  function chain(statement, isFirst) {
    const box = element("div", null, { class: "chain" }), key = `${statement.cause} ${statement.since_ms}`;
    const rows = links => {
      const list = element("dl");
      for (const link of links) {
        const text = element("dd", sentence(link.parts));
        if (link.certainty !== "proven" && link.kind !== "do_first") text.append(element("small", ` ${link.certainty}${link.sum ? `: ${safe(link.sum, 600)}` : ""}`));
        list.append(element("dt", safe(link.label, 40)), text);
      }
      return list;
    };
    const isShown = link => ["cause", "cost", "still_wrong", "do_first"].includes(link.kind);
    box.append(rows(statement.links.filter(isShown)));
    if (statement.first) {
      const step = element("p", null, { class: "step" });
      step.append(element("span", safe(statement.first.about, 600)), command(safe(statement.first.command, 1000)), isLink(statement.first.runbook) ? element("a", "Runbook", { href: statement.first.runbook, rel: "noreferrer" }) : element("small", safe(statement.first.runbook, 300)));
      box.append(step);
    }
    const rest = statement.links.filter(link => !isShown(link));
    if (rest.length || statement.gaps.length) {
      const more = element("details");
      more.append(element("summary", "how it went"), rows(rest), ...statement.gaps.map(text => element("small", `Not known: ${safe(text, 600)}`)));
      more.open = closed.has(key) ? !closed.get(key) : isFirst;
      more.addEventListener("toggle", () => closed.set(key, !more.open));
      box.append(more);
    }
    return box;
  }

  // Its lines are broken between words only: a flag that is cut after its dashes is hard to read.
  function command(text) {
    const made = element("code");
    made.append(...text.split(" ").flatMap((word, at) => [...(at ? [" "] : []), word.length < 40 ? element("span", word, { class: "word" }) : word]));
    return made;
  }

  // Whether the brokers were asked about classic groups: yes, from when to when; no; or it is not known.
  function askedText({ basis, unread, since_ms, known_until_ms }) {
    const missing = unread.find(one => one.what === "probes"), SLACK_MS = 120000;
    if (!basis.probed) return missing ? `whether brokers were asked ${Unread.WORDS[missing.reason]}` : "brokers were not asked";
    const [from, to] = basis.asked || [since_ms, known_until_ms];
    return `brokers were asked${from > since_ms + SLACK_MS ? ` from ${clock(from, state.zone)}` : ""}${missing || to < known_until_ms - SLACK_MS ? ` up to ${clock(to, state.zone)}` : ""}`;
  }

  function showFoot(source = state.doc.source) {
    const facts = [["made by", `groupreplay ${source.version}`], ["command", source.command], ["source", `${source.origin}; cluster ${source.cluster_id}, offsets topic ${source.topic_id}`],
      ["capture", source.digest ? `SHA-256 ${source.digest}` : "none: read from a live cluster"], ["redacted", source.redacted.length ? source.redacted.join(", ") : "nothing"]];
    byId("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", safe(value, 2000))]));
  }

  // ---- picture

  function width() { return state.printing ? 1040 : Math.max(byId("picture").clientWidth, 320); }
  function render() {
    state.view.end = state.end_ms; state.view.width = width(); state.view.dark = dark.matches && !state.printing; state.view.zone = state.zone;
    drawing = Picture.draw(state.doc, state.view);
    const holder = byId("canvas");
    if (!chart) {
      chart = echarts.init(holder, null, { renderer: "canvas", width: state.view.width, height: drawing.height });
      chart.on("mousemove", hover); chart.on("mouseout", () => hideTip()); chart.on("click", clicked);
    } else if (chart.getWidth() !== state.view.width || chart.getHeight() !== drawing.height) chart.resize({ width: state.view.width, height: drawing.height, silent: true });
    holder.style.height = `${drawing.height}px`;
    chart.setOption(Picture.option(drawing), { notMerge: true, lazyUpdate: false });
    showRange(); placeSelection();
    document.documentElement.dataset.items = drawing.items.length;
    document.documentElement.dataset.draws = Number(document.documentElement.dataset.draws || 0) + 1;
  }
  let waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; render(); });
  }
  function showRange() {
    const whole = state.view.since <= state.doc.since_ms && state.view.until >= ends();
    byId("range").textContent = `${rangeText(state.view.since, state.view.until, state.zone)} ${zoneName(state.view.since, state.zone)}${whole ? "" : ` (${lasted(state.view.until - state.view.since)} of ${lasted(ends() - state.doc.since_ms)})`}`;
    byId("whole").disabled = whole;
    byId("select-zoom").classList.toggle("hidden", !state.selection);
    byId("select-clear").classList.toggle("hidden", !state.selection);
    byId("picture").setAttribute("aria-label", `Picture of group ${safe(state.doc.group_id, 80)}, ${rangeText(state.view.since, state.view.until, state.zone)}. ${state.doc.verdict[0].text} The table below has every event.`);
  }
  // The end of the time that can be shown: of the document, or now on a page that follows a group.
  const ends = () => Math.max(state.doc.until_ms, state.end_ms || 0);
  function frame(since, until) {
    const all = ends() - state.doc.since_ms, length = Math.min(Math.max(until - since, Math.min(SMALLEST_MS, all)), all);
    state.view.since = Math.max(state.doc.since_ms, Math.min(since, ends() - length));
    state.view.until = state.view.since + length;
    later(); EventTable.show(state);
  }
  // A reader has moved or zoomed.
  function setView(since, until) { hooks.moved(); frame(since, until); remember(); }

  // ---- the address: what the reader has chosen

  // The fields of an address that are about one group.
  const NOTHING = { since: null, until: null, from: null, to: null, event: null, filter: null, severity: null };
  function remember() {
    const { view, selection, marked } = state, whole = view.since <= state.doc.since_ms && view.until >= ends();
    Address.set({ since: whole ? null : Math.round(view.since), until: whole ? null : Math.round(view.until), from: selection && selection[0], to: selection && selection[1],
      event: marked, filter: byId("filter").value.trim(), severity: byId("severity").value === "all" ? null : byId("severity").value });
  }
  function restore() {
    const pair = (from, to) => { const range = [Address.number(from), Address.number(to)]; return range.includes(null) ? null : range; };
    byId("filter").value = Address.get("filter");
    byId("severity").value = Address.get("severity") === "warn" ? "warn" : "all";
    state.view.filter = Address.get("filter").toLowerCase();
    state.selection = pair("from", "to");
    const zoom = pair("since", "until");
    frame(...(zoom || [state.doc.since_ms, ends()]));
    showEvent(state.doc.events.find(event => event.id === Address.get("event")), !zoom);
  }
  function zoomTo(since, until, margin = 0) {
    const extra = Math.max((until - since) * margin, margin ? 5000 : 0);
    setView(since - extra, until + extra);
    byId("picture").scrollIntoView({ block: "nearest" });
  }
  function zoomBy(factor, at) {
    const middle = at === undefined ? (state.view.since + state.view.until) / 2 : at;
    setView(Math.round(middle - (middle - state.view.since) * factor), Math.round(middle + (state.view.until - middle) * factor));
  }
  const wholeTime = () => setView(state.doc.since_ms, ends());
  const pan = part => { const step = (state.view.until - state.view.since) * part; setView(Math.round(state.view.since + step), Math.round(state.view.until + step)); };
  const timeAt = x => state.view.since + (x - drawing.left) / drawing.scale;

  function hover(params) {
    const item = drawing.items[params.dataIndex];
    const lines = item && (item.hover ? item.hover(timeAt(params.event.offsetX)) : item.tip);
    if (!lines) { hideTip(); return; }
    const tip = byId("tip"), event = params.event.event;
    tip.replaceChildren(...lines.map(line => element("div", line)));
    tip.classList.remove("hidden");
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 12) : event.clientY + 18}px`;
  }
  const hideTip = () => byId("tip").classList.add("hidden");
  function clicked(params) {
    const item = drawing.items[params.dataIndex], act = item && item.act;
    if (!act || dragged) return;
    if (act.slot !== undefined) { state.view.slot = state.view.slot === act.slot ? null : act.slot; later(); }
    if (act.fold !== undefined) { state.view.folds.set(act.fold, !act.folded); later(); }
    if (act.go) zoomTo(act.go[0], act.go[1], 0.5);
    if (act.event !== undefined && act.event !== null) markEvent(state.doc.events[act.event]);
  }

  // ---- selection

  let dragFrom = null, dragged = false;
  const localX = event => event.clientX - byId("picture").getBoundingClientRect().left;
  const localY = event => event.clientY - byId("picture").getBoundingClientRect().top;
  function startDrag(event) {
    const x = localX(event);
    if (event.button !== 0 || x < drawing.left || x > drawing.right) return;
    dragFrom = x; dragged = false;
  }
  function moveDrag(event) {
    const x = localX(event), cursor = byId("cursor"), within = x >= drawing.left && x <= drawing.right;
    cursor.classList.toggle("hidden", !within);
    cursor.style.left = `${x}px`;
    if (dragFrom === null) return;
    if (Math.abs(x - dragFrom) > 5) dragged = true;
    if (dragged) {
      hideTip();
      const a = Math.max(Math.min(dragFrom, x), drawing.left), b = Math.min(Math.max(dragFrom, x), drawing.right);
      state.selection = [Math.round(timeAt(a)), Math.round(timeAt(b))];
      placeSelection();
    }
  }
  function endDrag() {
    if (dragFrom === null) return;
    dragFrom = null;
    if (dragged) { showRange(); EventTable.show(state); remember(); setTimeout(() => { dragged = false; }, 0); }
  }
  function placeSelection() {
    const shown = byId("selection");
    shown.classList.toggle("hidden", !state.selection);
    if (!state.selection) return;
    const at = ms => drawing.left + (ms - state.view.since) * drawing.scale;
    const a = Math.max(at(state.selection[0]), drawing.left), b = Math.min(at(state.selection[1]), drawing.right);
    shown.style.left = `${a}px`;
    shown.style.width = `${Math.max(b - a, 0)}px`;
  }
  function clearSelection() { state.selection = null; placeSelection(); showRange(); EventTable.show(state); remember(); }
  function wheel(event) {
    const x = localX(event), y = localY(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoomBy(event.deltaY > 0 ? 1.35 : 1 / 1.35, timeAt(Math.max(drawing.left, Math.min(x, drawing.right))));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
    } else {
      const found = Object.entries(drawing.regions).find(([, one]) => y >= one.y && y <= one.y + one.h && one.total > one.shown);
      if (found && scrollLanes(found[0], Math.sign(event.deltaY) * 3)) event.preventDefault();
    }
  }
  function scrollLanes(name, rowsDown) {
    const region = drawing.regions[name];
    if (!region || region.total <= region.shown) return false;
    const top = Math.max(0, Math.min(region.top + rowsDown, region.total - region.shown));
    if (top === region.top) return false;
    state.view.tops[name] = top;
    later();
    return true;
  }
  const KEYS = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoomBy(0.6), "=": () => zoomBy(0.6), "-": () => zoomBy(1 / 0.6),
    0: wholeTime, Home: () => setView(state.doc.since_ms, state.doc.since_ms + state.view.until - state.view.since),
    End: () => setView(ends() - (state.view.until - state.view.since), ends()), Escape: () => { state.view.slot = null; hideTip(); clearSelection(); later(); },
    PageDown: () => { scrollLanes("partitions", 30) || scrollLanes("members", 15); }, PageUp: () => { scrollLanes("members", -15) || scrollLanes("partitions", -30); },
    n: () => nextCondition(1), p: () => nextCondition(-1),
  };
  function nextCondition(step) {
    const bars = state.doc.conditions, middle = (state.view.since + state.view.until) / 2;
    const after = step > 0 ? bars.find(bar => bar.since_ms > middle + 1) : [...bars].reverse().find(bar => bar.since_ms < middle - (state.view.until - state.view.since) / 2);
    if (after) zoomTo(after.since_ms, after.until_ms === null ? ends() : after.until_ms, 0.5);
  }
  function markEvent(event) { if (event) { showEvent(event); remember(); } }
  function showEvent(event, isSought = true) {
    state.marked = null;
    if (!event) return;
    state.marked = event.id;
    if (isSought && (event.time_ms < state.view.since || event.time_ms > state.view.until)) zoomTo(event.time_ms - 30000, event.time_ms + 30000);
    state.rows = Math.max(state.rows, EventTable.rows(state, EventTable.within(state)).findIndex(({ item }) => item.id === event.id) + 1);
    EventTable.show(state);
    EventTable.scrollTo(event.id);
  }

  // ---- documents

  function open(doc) {
    Object.assign(state, { doc, selection: null, marked: null, rows: EventTable.ROWS });
    byId("filter").value = "";
    EventTable.forget();
    state.view = Picture.firstView(doc, width(), { zone: state.zone });
    showHead(); showFoot(); restore(); render();
  }
  // The same group, read again: the reader's place, filter and choices stay.
  function update(doc) {
    const before = state.doc, lane = state.view.slot === null ? null : before.slots[state.view.slot];
    const topics = new Map(before.topics.map((topic, index) => [topic.topic, state.view.folds.get(index)]));
    state.doc = doc;
    state.view.folds = new Map(doc.topics.map((topic, index) => [index, topics.get(topic.topic)]).filter(([, fold]) => fold !== undefined));
    const slot = lane ? doc.slots.findIndex(one => one.name === lane.name && one.client_host === lane.client_host) : -1;
    state.view.slot = slot >= 0 ? slot : null;
    showHead(); showFoot();
    frame(state.view.since, state.view.until);
  }
  function setZone(zone) {
    state.zone = zone;
    Elements.showZone(zone);
    if (shown()) { showHead(); render(); EventTable.show(state); }
    else if (state.view) state.view.zone = zone;
  }
  function saveSvg() {
    const text = Picture.svg(state.doc, 1400, dark.matches), place = element("a", "", { download: "timeline.svg" });
    place.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    place.click();
    setTimeout(() => URL.revokeObjectURL(place.href), 10000);
  }
  function print(on) {
    state.printing = on;
    state.rows = on ? 1000 : EventTable.ROWS;
    // Paper cannot be opened.
    const folded = document.querySelectorAll(on ? "#group details:not([open])" : "#group details[data-printed]");
    for (const each of folded) { each.open = on; each.toggleAttribute("data-printed", on); }
    if (shown()) { Present.show(state); render(); EventTable.show(state); }
  }
  const shown = () => state.doc && !byId("group").classList.contains("hidden");

  function listen() {
    byId("whole").addEventListener("click", wholeTime);
    byId("in").addEventListener("click", () => zoomBy(0.5));
    byId("out").addEventListener("click", () => zoomBy(2));
    byId("select-zoom").addEventListener("click", () => { const [a, b] = state.selection; state.selection = null; zoomTo(a, b); });
    byId("select-clear").addEventListener("click", clearSelection);
    byId("save-svg").addEventListener("click", saveSvg);
    byId("copy-table").addEventListener("click", () => copy(EventTable.markdown(state, EventTable.within(state))));
    byId("more").addEventListener("click", () => { state.rows += EventTable.ROWS * 4; EventTable.show(state); });
    byId("copy-link").addEventListener("click", () => copy(Address.link()));
    byId("severity").addEventListener("change", () => { state.marked = null; EventTable.show(state); remember(); });
    byId("filter").addEventListener("input", event => { state.view.filter = event.target.value.trim().toLowerCase(); state.view.tops = {}; state.marked = null; later(); EventTable.show(state); remember(); });
    const picture = byId("picture");
    picture.addEventListener("mousedown", startDrag);
    picture.addEventListener("dblclick", event => { if (localX(event) >= drawing.left) wholeTime(); });
    addEventListener("mousemove", event => { if (drawing && shown()) moveDrag(event); });
    addEventListener("mouseup", endDrag);
    picture.addEventListener("mouseleave", () => { byId("cursor").classList.add("hidden"); hideTip(); });
    picture.addEventListener("wheel", wheel, { passive: false });
    picture.addEventListener("keydown", event => { const act = KEYS[event.key]; if (act && state.doc && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); } });
    addEventListener("resize", () => { if (shown()) later(); });
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    dark.addEventListener("change", () => { if (shown()) later(); });
  }

  return { state, hooks, NOTHING, listen, open, restore, update, frame, ends, later, markEvent, setZone, showFoot };
})();
