// The page: draws the documents of its data island, and lets a reader zoom, select, filter and copy.
// Text of the data reaches the page as text only: textContent, never HTML.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const overview = data.strips ? data : null, documents = overview ? overview.timelines : [data];
  const { safe, day, clock, exact, lasted, zoneName, counted } = Picture;
  const ROWS = 300, SMALLEST_MS = 1000;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const byId = id => document.getElementById(id);
  let zone = "utc", doc = null, view = null, drawing = null, chart = null, selection = null, marked = null, rows = ROWS, printing = false;

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
  function button(text, act, attributes = {}) {
    const made = element("button", text, { type: "button", ...attributes });
    made.addEventListener("click", act);
    return made;
  }
  const fullTime = ms => `${day(ms, zone)} ${clock(ms, zone)}`;
  function rangeText(since, until) {
    return day(since, zone) === day(until, zone) ? `${fullTime(since)} to ${clock(until, zone)}` : `${fullTime(since)} to ${fullTime(until)}`;
  }
  const link = text => /^https?:\/\/[^\s]+$/.test(text);

  // ---- head

  function showHead() {
    byId("title").textContent = safe(doc.group_id) || "(empty group id)";
    document.title = `${safe(doc.group_id, 60)}: what happened`;
    const types = doc.states.map(bar => bar.group_type).filter((type, at, all) => at === 0 || type !== all[at - 1]);
    byId("when").textContent = `${types.length > 1 ? `first ${types.slice(0, 6).join(", then ")}` : doc.group_type} group, ${rangeText(doc.since_ms, doc.until_ms)} ${zoneName(doc.since_ms, zone)} (${lasted(doc.until_ms - doc.since_ms)})`;
    const verdict = byId("verdict");
    verdict.className = `verdict ${doc.verdict[0].tone}`;
    verdict.replaceChildren(...doc.verdict.map(statement => {
      const line = element("p", null, { class: statement.tone });
      line.append(element("span", statement.parts.map(part => typeof part === "number" ? clock(part, zone) : safe(part, 1000)).join("")));
      if (statement.since_ms !== null) line.append(button("Show", () => zoomTo(statement.since_ms, statement.until_ms, 0.25), { "aria-label": "Show this time in the picture" }));
      return line;
    }));
    const badges = [`evidence: ${doc.basis.evidence.join(", ") || "none"}`, `history: ${doc.basis.history}`, doc.basis.probed ? "brokers were asked" : "brokers were not asked"];
    if (doc.conditions.some(bar => bar.name === "rebalance.stuck") && doc.slots.some(lane => lane.blames.some(blame => !blame.proven))) badges.push("suspects are inferred");
    if (doc.basis.catch_up) badges.push(`${doc.basis.catch_up} events recorded late`);
    if (doc.source.redacted.length) badges.push(`redacted: ${doc.source.redacted.join(", ")}`);
    byId("badges").replaceChildren(...badges.map(text => element("span", text, { class: text === "history: partial" ? "badge warn" : "badge" })));
    const remarks = byId("remarks");
    remarks.classList.toggle("hidden", !doc.remarks.length);
    remarks.replaceChildren(element("summary", `${counted(doc.remarks.length, "remark")}: what is not here, or in sums only`), element("ul"));
    remarks.lastChild.append(...doc.remarks.map(one => element("li", safe(one.text, 600))));
    remarks.open = doc.remarks.length > 0 && doc.remarks.length < 3;
  }

  function showFoot() {
    const facts = [["made by", `groupreplay ${doc.source.version}`], ["command", doc.source.command], ["source", `${doc.source.origin}; cluster ${doc.source.cluster_id}, offsets topic ${doc.source.topic_id}`],
      ["capture", doc.source.digest ? `SHA-256 ${doc.source.digest}` : "none: read from a live cluster"], ["redacted", doc.source.redacted.length ? doc.source.redacted.join(", ") : "nothing"]];
    byId("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", safe(value, 2000))]));
  }

  // ---- picture

  function width() { return printing ? 1040 : Math.max(byId("picture").clientWidth, 560); }
  function render() {
    view.width = width(); view.dark = dark.matches && !printing; view.zone = zone;
    drawing = Picture.draw(doc, view);
    const holder = byId("canvas");
    if (!chart) {
      chart = echarts.init(holder, null, { renderer: "canvas", width: view.width, height: drawing.height });
      chart.on("mousemove", hover); chart.on("mouseout", () => hideTip()); chart.on("click", clicked);
    } else if (chart.getWidth() !== view.width || chart.getHeight() !== drawing.height) chart.resize({ width: view.width, height: drawing.height, silent: true });
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
    const whole = view.since <= doc.since_ms && view.until >= doc.until_ms;
    byId("range").textContent = `${rangeText(view.since, view.until)} ${zoneName(view.since, zone)}${whole ? "" : ` (${lasted(view.until - view.since)} of ${lasted(doc.until_ms - doc.since_ms)})`}`;
    byId("whole").disabled = whole;
    byId("select-zoom").classList.toggle("hidden", !selection);
    byId("select-clear").classList.toggle("hidden", !selection);
    byId("picture").setAttribute("aria-label", `Picture of group ${safe(doc.group_id, 80)}, ${rangeText(view.since, view.until)}. ${doc.verdict[0].text} The table below has every event.`);
  }
  function setView(since, until) {
    const least = Math.min(SMALLEST_MS, doc.until_ms - doc.since_ms);
    let length = Math.max(until - since, least);
    length = Math.min(length, doc.until_ms - doc.since_ms);
    view.since = Math.max(doc.since_ms, Math.min(since, doc.until_ms - length));
    view.until = view.since + length;
    later(); showTable();
  }
  function zoomTo(since, until, margin = 0) {
    const extra = Math.max((until - since) * margin, margin ? 5000 : 0);
    setView(since - extra, until + extra);
    byId("picture").scrollIntoView({ block: "nearest" });
  }
  function zoomBy(factor, at) {
    const middle = at === undefined ? (view.since + view.until) / 2 : at;
    setView(Math.round(middle - (middle - view.since) * factor), Math.round(middle + (view.until - middle) * factor));
  }
  const pan = part => { const step = (view.until - view.since) * part; setView(Math.round(view.since + step), Math.round(view.until + step)); };
  const timeAt = x => view.since + (x - drawing.left) / drawing.scale;

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
    if (act.slot !== undefined) { view.slot = view.slot === act.slot ? null : act.slot; later(); }
    if (act.fold !== undefined) { view.folds.set(act.fold, !act.folded); later(); }
    if (act.go) zoomTo(act.go[0], act.go[1], 0.5);
    if (act.event !== undefined && act.event !== null) markEvent(act.event);
  }

  // ---- selection with the mouse, zoom with the wheel, everything with keys

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
      selection = [Math.round(timeAt(a)), Math.round(timeAt(b))];
      placeSelection();
    }
  }
  function endDrag() {
    if (dragFrom === null) return;
    dragFrom = null;
    if (dragged) { showRange(); showTable(); setTimeout(() => { dragged = false; }, 0); }
  }
  function placeSelection() {
    const shown = byId("selection");
    shown.classList.toggle("hidden", !selection);
    if (!selection) return;
    const at = ms => drawing.left + (ms - view.since) * drawing.scale;
    const a = Math.max(at(selection[0]), drawing.left), b = Math.min(at(selection[1]), drawing.right);
    shown.style.left = `${a}px`;
    shown.style.width = `${Math.max(b - a, 0)}px`;
  }
  function clearSelection() { selection = null; placeSelection(); showRange(); showTable(); }
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
    view.tops[name] = top;
    later();
    return true;
  }
  const KEYS = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoomBy(0.6), "=": () => zoomBy(0.6), "-": () => zoomBy(1 / 0.6),
    0: () => setView(doc.since_ms, doc.until_ms), Home: () => setView(doc.since_ms, doc.since_ms + view.until - view.since),
    End: () => setView(doc.until_ms - (view.until - view.since), doc.until_ms), Escape: () => { view.slot = null; hideTip(); clearSelection(); later(); },
    PageDown: () => { scrollLanes("partitions", 30) || scrollLanes("members", 15); }, PageUp: () => { scrollLanes("members", -15) || scrollLanes("partitions", -30); },
    n: () => nextCondition(1), p: () => nextCondition(-1),
  };
  function nextCondition(step) {
    const bars = doc.conditions, middle = (view.since + view.until) / 2;
    const after = step > 0 ? bars.find(bar => bar.since_ms > middle + 1) : [...bars].reverse().find(bar => bar.since_ms < middle - (view.until - view.since) / 2);
    if (after) zoomTo(after.since_ms, after.until_ms === null ? doc.until_ms : after.until_ms, 0.5);
  }

  // ---- table

  function within() {
    const [since, until] = selection || [view.since, view.until], wanted = byId("severity").value, text = view.filter;
    return doc.events.map((event, index) => ({ event, index })).filter(({ event, index }) => index === marked ||
      (event.time_ms >= since && event.time_ms <= until && (wanted === "all" || event.severity !== "INFO") &&
        (!text || `${event.name} ${event.text}`.toLowerCase().includes(text))));
  }
  function showTable() {
    const found = within();
    byId("count").textContent = `${counted(found.length, "event")} of ${doc.events.length} ${selection ? "in the selected time" : "in the time shown"}`;
    byId("zone-name").textContent = zoneName(doc.since_ms, zone);
    byId("rows").replaceChildren(...found.slice(0, rows).map(({ event, index }) => tableRow(event, index)));
    byId("more").classList.toggle("hidden", found.length <= rows);
    byId("more").textContent = `Show ${Math.min(ROWS * 4, found.length - rows)} more`;
  }
  function tableRow(event, index) {
    const row = element("tr", null, { class: event.severity + (index === marked ? " marked" : ""), id: `event-${index}` });
    const name = element("td");
    const open = button(event.name, () => toggleDetail(row, event), { class: "open", "aria-expanded": "false" });
    name.append(open);
    const place = event.partition === null ? "" : `${event.partition} : ${event.offset}`;
    row.append(element("td", `${day(event.time_ms, zone)} ${exact(event.time_ms, zone)}`, { class: "time" }), element("td", event.severity, { class: "severity" }), name,
      element("td", safe(event.text, 2000), { class: "text" }), element("td", place, { class: "place" }));
    return row;
  }
  function decodeCommand(event) {
    if (event.partition === null || event.topic !== "__consumer_offsets") return null;
    const from = doc.source.digest ? doc.source.origin.split(", ").map(name => `--from-file ${quoted(name)}`).join(" ") : "--bootstrap-server HOST:PORT";
    return `groupreplay decode ${from} --partition ${event.partition} --offset ${event.offset} --with-position`;
  }
  const quoted = text => /^[\w./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
  function toggleDetail(row, event) {
    const open = row.querySelector("button.open"), next = row.nextElementSibling;
    if (next && next.classList.contains("detail")) { next.remove(); open.setAttribute("aria-expanded", "false"); return; }
    open.setAttribute("aria-expanded", "true");
    const detail = element("tr", null, { class: "detail" }), cell = element("td", null, { colspan: 5 }), tools = element("div", null, { class: "row" });
    const command = decodeCommand(event), runbook = event.body && event.body.data && event.body.data.runbook;
    tools.append(button("Copy as Markdown", () => copy(markdown([event])), { class: "copy" }));
    if (event.body) tools.append(button("Copy JSON", () => copy(JSON.stringify(event.body, null, 2)), { class: "copy" }));
    if (command) tools.append(button("Copy the decode command", () => copy(command), { class: "copy" }));
    if (typeof runbook === "string" && link(runbook)) tools.append(element("a", "Runbook", { href: runbook, rel: "noreferrer" }));
    else if (runbook) tools.append(element("span", `runbook: ${safe(runbook)}`));
    cell.append(tools);
    if (command) cell.append(element("pre", command));
    cell.append(element("pre", event.body ? safe(JSON.stringify(event.body, null, 2), 200000).replace(/\\u\{a\}/g, "\n") : "This page has no JSON of this event, to stay small. groupreplay replay -o jsonl prints it."));
    detail.append(cell);
    row.after(detail);
  }
  function markdown(events) {
    const clean = text => safe(text, 2000).replace(/([\\|`*_<>[\]])/g, "\\$1");
    const lines = [`**${clean(doc.group_id)}**, ${rangeText(view.since, view.until)} ${zoneName(view.since, zone)}`, "", ...doc.verdict.map(one => `- ${clean(one.parts.map(part => typeof part === "number" ? clock(part, zone) : part).join(""))}`), "",
      `| time (${zoneName(view.since, zone)}) | severity | event | what | partition : offset |`, "| --- | --- | --- | --- | --- |",
      ...events.map(event => `| ${day(event.time_ms, zone)} ${exact(event.time_ms, zone)} | ${event.severity} | ${clean(event.name)} | ${clean(event.text)} | ${event.partition === null ? "" : `${event.partition} : ${event.offset}`} |`)];
    if (events.length === 1 && events[0].body) lines.push("", "```json", JSON.stringify(events[0].body, null, 2).replace(/```/g, "\\u0060``"), "```");
    return lines.join("\n") + "\n";
  }
  function copy(text) {
    const done = () => announce("copied"), area = element("textarea", text, { class: "visually-hidden" });
    if (navigator.clipboard && isSecureContext) { navigator.clipboard.writeText(text).then(done, () => announce("could not copy")); return; }
    document.body.append(area);
    area.select();
    announce(document.execCommand("copy") ? "copied" : "could not copy");
    area.remove();
  }
  function announce(text) { byId("status").textContent = text; setTimeout(() => { byId("status").textContent = ""; }, 4000); }
  function markEvent(index) {
    const event = doc.events[index];
    marked = index;
    if (event.time_ms < view.since || event.time_ms > view.until) zoomTo(event.time_ms - 30000, event.time_ms + 30000);
    const place = within().findIndex(one => one.index === index);
    rows = Math.max(rows, place + 1);
    showTable();
    const row = byId(`event-${index}`);
    if (row) row.scrollIntoView({ block: "center" });
  }

  // ---- overview of all groups

  const SVG = "http://www.w3.org/2000/svg";
  function stripPicture(strip) {
    const picture = document.createElementNS(SVG, "svg"), span = Math.max(overview.until_ms - overview.since_ms, 1);
    const colours = { stuck: "--bad", slow: "--warn", pause: "--warn", expiry: "--bad", condition: "--info" };
    const put = (x, y, w, h, colour, opacity) => {
      const rect = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ x, y, width: w, height: h, opacity })) rect.setAttribute(key, value);
      rect.style.fill = `var(${colour})`;
      picture.append(rect);
    };
    picture.setAttribute("viewBox", "0 0 1000 22"); picture.setAttribute("preserveAspectRatio", "none"); picture.setAttribute("class", "strip");
    picture.setAttribute("role", "img"); picture.setAttribute("aria-label", stripText(strip));
    const most = Math.max(4, ...strip.rebalances);
    strip.rebalances.forEach((count, at) => { if (count) { const h = 5 + 9 * count / most; put(1000 * at * overview.bucket_ms / span, 21 - h, Math.max(1000 * overview.bucket_ms / span - 1, 2), h, "--muted", 0.75); } });
    for (const one of strip.spans) put(1000 * (one.since_ms - overview.since_ms) / span, one.kind === "condition" ? 6 : 1, Math.max(1000 * (one.until_ms - one.since_ms) / span, 4), one.kind === "stuck" ? 7 : 5, colours[one.kind] || "--info", 0.9);
    return picture;
  }
  const stripText = strip => [...Object.entries(strip.conditions).map(([name, count]) => `${name}${count > 1 ? ` ×${count}` : ""}`), ...(strip.expiries ? [`offsets were lost${strip.expiries > 1 ? ` ${strip.expiries} times` : ""}`] : []), counted(strip.rebalance_count, "rebalance")].join(", ");
  let stripRows = 100;
  function showOverview() {
    byId("overview").classList.remove("hidden"); byId("group").classList.add("hidden");
    byId("title").textContent = "Consumer groups";
    document.title = "Consumer groups: what happened";
    byId("when").textContent = `${counted(overview.strips.length, "group")}, ${rangeText(overview.since_ms, overview.until_ms)} ${zoneName(overview.since_ms, zone)}; the worst ones first`;
    const text = byId("group-filter").value.trim().toLowerCase(), full = new Map(documents.map((one, index) => [one.group_id, index]));
    const found = overview.strips.filter(strip => strip.group_id.toLowerCase().includes(text) && (!byId("only-wrong").checked || strip.tone !== "ok"));
    byId("strip-count").textContent = `${counted(found.length, "group")}; ${documents.length} can be opened`;
    byId("strips").replaceChildren(...found.slice(0, stripRows).map(strip => {
      const row = element("tr"), name = element("td", null, { class: "name" }), picture = element("td", null, { class: "wide" });
      name.append(element("span", null, { class: `tone ${strip.tone}`, role: "img", "aria-label": strip.tone }));
      if (full.has(strip.group_id)) name.append(element("a", safe(strip.group_id) || "(empty)", { href: `#g${full.get(strip.group_id)}` }));
      else name.append(element("span", safe(strip.group_id) || "(empty)"));
      if (strip.in_full) picture.append(stripPicture(strip));
      row.append(name, element("td", strip.group_type), picture, element("td", stripText(strip), { class: "text" }), element("td", String(strip.moved)));
      return row;
    }));
    byId("more-strips").classList.toggle("hidden", found.length <= stripRows);
    byId("all-remarks").replaceChildren(...overview.remarks.map(one => element("li", safe(one.text, 600))));
    doc = { ...overview, source: overview.source };
    showFoot();
  }

  // ---- which document, and the start

  function open(index) {
    doc = documents[index];
    if (!doc) return;
    byId("group").classList.remove("hidden"); byId("overview").classList.add("hidden");
    byId("back").classList.toggle("hidden", !overview);
    selection = null; marked = null; rows = ROWS;
    byId("filter").value = "";
    view = Picture.firstView(doc, width(), { zone });
    showHead(); showFoot(); render(); showTable();
    scrollTo(0, 0);
  }
  function route() {
    const found = /^#g(\d+)$/.exec(location.hash);
    if (!overview) open(0);
    else if (found && documents[Number(found[1])]) open(Number(found[1]));
    else showOverview();
  }
  function setZone(name) {
    zone = name;
    for (const each of document.querySelectorAll("[data-zone]")) each.setAttribute("aria-pressed", String(each.dataset.zone === name));
    if (doc && doc.strips) { showOverview(); return; }
    showHead(); render(); showTable();
  }
  function saveSvg() {
    const text = Picture.svg(doc, 1400, dark.matches), place = element("a", "", { download: "timeline.svg" });
    place.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    place.click();
    setTimeout(() => URL.revokeObjectURL(place.href), 10000);
  }
  function print(on) {
    printing = on;
    rows = on ? 1000 : ROWS;
    if (doc && !doc.strips) { render(); showTable(); }
  }

  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => setZone(each.dataset.zone));
  byId("whole").addEventListener("click", () => setView(doc.since_ms, doc.until_ms));
  byId("in").addEventListener("click", () => zoomBy(0.5));
  byId("out").addEventListener("click", () => zoomBy(2));
  byId("select-zoom").addEventListener("click", () => { const [a, b] = selection; selection = null; zoomTo(a, b); });
  byId("select-clear").addEventListener("click", clearSelection);
  byId("save-svg").addEventListener("click", saveSvg);
  byId("copy-table").addEventListener("click", () => copy(markdown(within().map(one => one.event))));
  byId("more").addEventListener("click", () => { rows += ROWS * 4; showTable(); });
  byId("severity").addEventListener("change", () => { marked = null; showTable(); });
  byId("filter").addEventListener("input", event => { view.filter = event.target.value.trim().toLowerCase(); view.tops = {}; marked = null; later(); showTable(); });
  byId("group-filter").addEventListener("input", showOverview);
  byId("only-wrong").addEventListener("change", showOverview);
  byId("more-strips").addEventListener("click", () => { stripRows += 500; showOverview(); });
  const picture = byId("picture");
  picture.addEventListener("mousedown", startDrag);
  picture.addEventListener("dblclick", event => { if (localX(event) >= drawing.left) setView(doc.since_ms, doc.until_ms); });
  addEventListener("mousemove", event => { if (drawing && doc && !doc.strips) moveDrag(event); });
  addEventListener("mouseup", endDrag);
  picture.addEventListener("mouseleave", () => { byId("cursor").classList.add("hidden"); hideTip(); });
  picture.addEventListener("wheel", wheel, { passive: false });
  picture.addEventListener("keydown", event => { const act = KEYS[event.key]; if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); } });
  addEventListener("resize", () => { if (doc && !doc.strips) later(); });
  addEventListener("hashchange", route);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  dark.addEventListener("change", () => { if (doc && !doc.strips) later(); });
  route();
  document.documentElement.dataset.ready = "true";
})();
