// The table of a group's events: every event of the time shown, with its place in the log, its fields, its JSON and copies.
// A rebalance is one row, a run of them is one row, too, and both are opened to see what is in them: the document's folds.
// `state` has the document, the view, the zone, the selection, the marked event and the number of rows.
"use strict";
const EventTable = (() => {
  const { safe, day, exact, lasted, zoneName, counted, rangeText, sentence } = Format;
  const { byId, element, button, arrange, isLink, copy } = Elements;
  const ROWS = 300;
  // Rows by the id of their event, so that a document that is read again keeps the rows that are unfolded.
  let made = new Map();
  // Folds that are open, by their first event.
  const opened = new Set();

  function within(state) {
    const [since, until] = state.selection || [state.view.since, state.view.until], wanted = byId("severity").value, text = state.view.filter;
    const found = state.doc.events.filter(event => event.id === state.marked ||
      (event.time_ms >= since && event.time_ms <= until && (wanted === "all" || event.severity !== "INFO") &&
        (!text || `${event.name} ${event.text}`.toLowerCase().includes(text))));
    return state.newestFirst ? found.reverse() : found;
  }
  function show(state) {
    const { doc } = state, found = within(state), kept = new Map(), nodes = [];
    for (const { item, depth } of rows(state, found).slice(0, state.rows)) {
      const isFold = Boolean(item.events), key = `${isFold ? foldKey(doc, item) : item.id} ${state.zone} ${item.id === state.marked} ${depth} ${item.text}${isFold ? item.events.length : ""}`;
      const row = made.get(key) || { line: isFold ? foldRow(state, item, depth) : tableRow(state, item, depth), detail: null };
      kept.set(key, row);
      nodes.push(row.line);
      if (row.detail) nodes.push(row.detail);
    }
    made = kept;
    arrange(byId("rows"), nodes);
    byId("count").textContent = `${counted(found.length, "event")} of ${doc.events.length} ${state.selection ? "in the selected time" : "in the time shown"}`;
    byId("zone-name").textContent = zoneName(doc.since_ms, state.zone);
    const left = rows(state, found).length - state.rows;
    byId("more").classList.toggle("hidden", left <= 0);
    byId("more").textContent = `Show ${Math.min(ROWS * 4, left)} more`;
  }
  // Events and folds in order, those of an open fold behind it. A filter and paper have events only.
  function rows(state, found) {
    const { doc } = state;
    if (state.printing || state.view.filter || byId("severity").value !== "all") return found.map(event => ({ item: event, depth: 0 }));
    const places = new Map(doc.events.map((event, index) => [event, index])), own = new Map(), shown = [], done = new Set();
    for (const fold of doc.folds) for (const index of fold.events) own.set(index, fold);
    for (const event of found) {
      const fold = own.get(places.get(event)), folds = !fold ? [] : fold.within === null ? [fold] : [doc.folds[fold.within], fold];
      const isShut = folds.some(each => {
        if (!done.has(each)) { done.add(each); shown.push({ item: each, depth: folds.indexOf(each) }); }
        return !isOpen(state, each);
      });
      if (!isShut) shown.push({ item: event, depth: folds.length });
    }
    return shown;
  }
  const foldKey = (doc, fold) => `${fold.name} ${doc.events[fold.events[0]].id}`;
  const isOpen = ({ doc, marked }, fold) => opened.has(foldKey(doc, fold)) || (marked !== null && fold.events.some(index => doc.events[index].id === marked));
  function foldRow(state, fold, depth) {
    const row = element("tr", null, { class: `fold depth${depth} ${fold.severity}` }), name = element("td"), { doc, zone } = state, isNow = isOpen(state, fold);
    name.append(button(fold.name, () => {
      const key = foldKey(doc, fold);
      if (!opened.delete(key)) opened.add(key);
      if (isOpen(state, fold) && !opened.has(key)) state.marked = null;
      row.querySelector("button.open").setAttribute("aria-expanded", String(opened.has(key)));
      show(state);
    }, { class: "open", "aria-expanded": String(isNow) }));
    row.append(element("td", `${day(fold.since_ms, zone)} ${exact(fold.since_ms, zone)}${fold.until_ms > fold.since_ms ? ` + ${lasted(fold.until_ms - fold.since_ms)}` : ""}`, { class: "time" }), element("td", fold.severity, { class: "severity" }), name,
      element("td", safe(fold.text, 2000), { class: "text" }), element("td", counted(fold.events.length, "event"), { class: "place" }));
    return row;
  }
  function tableRow(state, event, depth) {
    const row = element("tr", null, { class: `depth${depth} ${event.severity}${event.id === state.marked ? " marked" : ""}`, "data-event": event.id });
    const name = element("td");
    name.append(button(event.name, () => toggleDetail(state, row, event), { class: "open", "aria-expanded": "false" }));
    row.append(element("td", `${day(event.time_ms, state.zone)} ${exact(event.time_ms, state.zone)}`, { class: "time" }), element("td", event.severity, { class: "severity" }), name,
      element("td", safe(event.text, 2000), { class: "text" }), element("td", place(event), { class: "place" }));
    return row;
  }
  const place = event => event.partition === null ? "" : `${event.partition} : ${event.offset}`;
  const quoted = text => /^[\w./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
  function decodeCommand(doc, event) {
    if (event.partition === null || event.topic !== "__consumer_offsets") return null;
    const from = doc.source.digest ? doc.source.origin.split(", ").map(name => `--from-file ${quoted(name)}`).join(" ") : "--bootstrap-server HOST:PORT";
    return `groupreplay decode ${from} --partition ${event.partition} --offset ${event.offset} --with-position`;
  }
  function toggleDetail(state, line, event) {
    const open = line.querySelector("button.open"), row = [...made.values()].find(one => one.line === line);
    if (!row) return;
    if (row.detail) row.detail.remove();
    row.detail = row.detail ? null : detailRow(state, event);
    open.setAttribute("aria-expanded", String(Boolean(row.detail)));
    if (row.detail) line.after(row.detail);
  }
  function detailRow(state, event) {
    const detail = element("tr", null, { class: "detail" }), cell = element("td", null, { colspan: 5 }), tools = element("div", null, { class: "row" });
    const command = decodeCommand(state.doc, event), runbook = event.body && event.body.data && event.body.data.runbook;
    tools.append(button("Copy as Markdown", () => copy(markdown(state, [event])), { class: "copy" }), button("Copy link", () => copy(Address.link({ event: event.id })), { class: "copy" }));
    if (event.body) tools.append(button("Copy JSON", () => copy(JSON.stringify(event.body, null, 2)), { class: "copy" }));
    if (command) tools.append(button("Copy the decode command", () => copy(command), { class: "copy" }));
    if (isLink(runbook)) tools.append(element("a", "Runbook", { href: runbook, rel: "noreferrer" }));
    else if (runbook) tools.append(element("span", `runbook: ${safe(runbook)}`));
    cell.append(tools);
    if (command) cell.append(element("pre", command));
    if (event.body) {
      const json = element("details");
      json.append(element("summary", "JSON"), element("pre", safe(JSON.stringify(event.body, null, 2), 200000).replace(/\\u\{a\}/g, "\n")));
      cell.append(fields(state, event.body.data || {}), json);
    } else cell.append(element("pre", "This page has no JSON of this event, to stay small. groupreplay replay -o jsonl prints it."));
    detail.append(cell);
    return detail;
  }
  // The fields of an event that have a value, by their names; times in the zone of the page.
  const FIRST_TIME_MS = 1e11;
  function fields({ zone }, data) {
    const isEmpty = value => value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);
    const worded = (name, value) => {
      if (typeof value === "number" && /_ms(_|$)/.test(name)) return value > FIRST_TIME_MS ? `${day(value, zone)} ${exact(value, zone)}` : lasted(value);
      if (value === null || typeof value !== "object") return String(value);
      if (Array.isArray(value)) return value.map(each => worded(name, each)).join(value.some(each => each && typeof each === "object") ? "; " : ", ");
      return Object.entries(value).filter(([, each]) => !isEmpty(each)).map(([key, each]) => `${key.replace(/_/g, " ")} ${worded(key, each)}`).join(", ");
    };
    const list = element("dl", null, { class: "fields" });
    for (const [name, value] of Object.entries(data)) if (!isEmpty(value)) list.append(element("dt", safe(name.replace(/_/g, " "), 80)), element("dd", safe(worded(name, value), 20000)));
    return list;
  }
  function markdown({ doc, view, zone }, events) {
    const clean = text => safe(text, 2000).replace(/([\\|`*_<>[\]])/g, "\\$1");
    const told = one => clean(sentence(one.parts, doc, zone));
    const lines = [`**${clean(doc.group_id)}**, ${rangeText(view.since, view.until, zone)} ${zoneName(view.since, zone)}`, "", ...doc.verdict.flatMap(one => [`- ${told(one)}`, ...one.links.map(link => `  - ${clean(link.label)}: ${told(link)}`)]), "",
      `| time (${zoneName(view.since, zone)}) | severity | event | what | partition : offset |`, "| --- | --- | --- | --- | --- |",
      ...events.map(event => `| ${day(event.time_ms, zone)} ${exact(event.time_ms, zone)} | ${event.severity} | ${clean(event.name)} | ${clean(event.text)} | ${place(event)} |`)];
    if (events.length === 1 && events[0].body) lines.push("", "```json", JSON.stringify(events[0].body, null, 2).replace(/```/g, "\\u0060``"), "```");
    return lines.join("\n") + "\n";
  }
  function scrollTo(id) {
    const row = [...byId("rows").children].find(one => one.dataset.event === id);
    if (row) row.scrollIntoView({ block: "center" });
  }
  const forget = () => { made = new Map(); opened.clear(); };

  return { ROWS, within, rows, show, markdown, scrollTo, forget };
})();
