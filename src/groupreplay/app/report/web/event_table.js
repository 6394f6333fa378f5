// The table of a group's events: every event of the time shown, with its place in the log, its JSON and copies of it.
// `state` has the document, the view, the zone, the selection, the marked event and the number of rows.
"use strict";
const EventTable = (() => {
  const { safe, day, clock, exact, zoneName, counted, rangeText } = Format;
  const { byId, element, button, arrange, isLink, copy } = Elements;
  const ROWS = 300;
  // Rows by the id of their event, so that a document that is read again keeps the rows that are unfolded.
  let made = new Map();

  function within(state) {
    const [since, until] = state.selection || [state.view.since, state.view.until], wanted = byId("severity").value, text = state.view.filter;
    const found = state.doc.events.filter(event => event.id === state.marked ||
      (event.time_ms >= since && event.time_ms <= until && (wanted === "all" || event.severity !== "INFO") &&
        (!text || `${event.name} ${event.text}`.toLowerCase().includes(text))));
    return state.newestFirst ? found.reverse() : found;
  }
  function show(state) {
    const { doc } = state, found = within(state), kept = new Map(), nodes = [];
    for (const event of found.slice(0, state.rows)) {
      const key = `${event.id} ${state.zone} ${event.id === state.marked} ${event.text}`;
      let row = made.get(key);
      if (!row) row = { line: tableRow(state, event), detail: null };
      kept.set(key, row);
      nodes.push(row.line);
      if (row.detail) nodes.push(row.detail);
    }
    made = kept;
    arrange(byId("rows"), nodes);
    byId("count").textContent = `${counted(found.length, "event")} of ${doc.events.length} ${state.selection ? "in the selected time" : "in the time shown"}`;
    byId("zone-name").textContent = zoneName(doc.since_ms, state.zone);
    byId("more").classList.toggle("hidden", found.length <= state.rows);
    byId("more").textContent = `Show ${Math.min(ROWS * 4, found.length - state.rows)} more`;
  }
  function tableRow(state, event) {
    const row = element("tr", null, { class: event.severity + (event.id === state.marked ? " marked" : ""), "data-event": event.id });
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
    cell.append(element("pre", event.body ? safe(JSON.stringify(event.body, null, 2), 200000).replace(/\\u\{a\}/g, "\n") : "This page has no JSON of this event, to stay small. groupreplay replay -o jsonl prints it."));
    detail.append(cell);
    return detail;
  }
  function markdown({ doc, view, zone }, events) {
    const clean = text => safe(text, 2000).replace(/([\\|`*_<>[\]])/g, "\\$1");
    const told = one => clean(one.parts.map(part => typeof part === "number" ? clock(part, zone) : part).join(""));
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
  const forget = () => { made = new Map(); };

  return { ROWS, within, show, markdown, scrollTo, forget };
})();
