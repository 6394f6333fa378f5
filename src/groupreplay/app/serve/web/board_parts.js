// Parts of the board: each makes the elements of one kind of data, and keeps those whose data did not change.
"use strict";
const BoardParts = (() => {
  const { safe, day, clock, counted } = Format;
  const { age } = Knowledge;
  const { byId, element, arrange, isLink } = Elements;
  // `as_of`: the time up to which groups are known; null: not known.
  const state = { zone: "utc", cluster: "", several: false, as_of: null };
  const RANKS = ["INFO", "WARN", "ERROR"], TONES = { ERROR: "error", WARN: "warn", INFO: "info", OK: "ok" }, DAY_MS = 86400000;
  const shownName = text => safe(text, 160) || "(empty id)";

  function groupAddress(label, more = {}) {
    const given = new URLSearchParams(state.several ? { cluster: state.cluster, ...more } : more).toString();
    return `/groups/${encodeURIComponent(label)}${given ? `?${given}` : ""}`;
  }
  const groupLink = (label, text, more) => element("a", shownName(text === undefined ? label : text), { href: groupAddress(label, more), class: "group" });
  const moment = ms => Knowledge.moment(ms, state.zone);
  // How long before the time up to which groups are known; where that is not known, the moment itself.
  const ago = ms => state.as_of === null ? moment(ms) : age(state.as_of - ms);
  function ahead(ms) {
    if (state.as_of === null) return moment(ms);
    const left = ms - state.as_of;
    return left <= 0 ? "may be due" : left < DAY_MS ? `${age(left)}` : `${Math.floor(left / DAY_MS)} d`;
  }
  function since(ms) {
    const text = element("time", ms === null ? "–" : ago(ms), ms === null ? {} : { "data-since": ms });
    if (ms !== null) text.title = moment(ms);
    return text;
  }
  function showAges() {
    const write = (one, text) => { if (one.textContent !== text) one.textContent = text; };
    for (const one of document.querySelectorAll("time[data-since]")) write(one, ago(Number(one.dataset.since)));
    for (const one of document.querySelectorAll("time[data-expires]")) {
      const ms = Number(one.dataset.expires);
      write(one, ahead(ms));
      one.classList.toggle("soon", state.as_of !== null && ms - state.as_of < DAY_MS);
    }
  }
  function cell(content, attributes = {}) {
    const made = element("td", null, attributes);
    if (content instanceof Node) made.append(content); else made.textContent = content;
    return made;
  }

  // The children of a parent from a list; those whose data is the same as before are kept as they are.
  const known = new WeakMap();
  function keyed(parent, items, keyOf, make) {
    const before = known.get(parent) || new Map(), after = new Map(), nodes = [];
    for (const item of items) {
      const key = keyOf(item), form = `${state.zone} ${state.cluster} ${JSON.stringify(item)}`, kept = before.get(key);
      const one = kept && kept.form === form ? kept : { form, node: make(item) };
      after.set(key, one);
      nodes.push(one.node);
    }
    known.set(parent, after);
    arrange(parent, nodes);
  }
  function empty(id, text) {
    byId(id).textContent = text;
    byId(id).classList.toggle("hidden", !text);
  }

  // ---- conditions

  function conditionRow(one) {
    const row = element("tr", null, { class: one.severity }), what = element("td", null, { class: "text" });
    what.append(element("span", safe(one.summary || "", 600)));
    const name = element("td");
    name.append(isLink(one.runbook) ? element("a", one.name, { href: one.runbook, rel: "noreferrer", title: "Runbook" }) : element("span", safe(one.name, 60)));
    const begun = element("a", null, { href: groupAddress(one.label === undefined ? one.group_id : one.label, one.since_ms === null ? {} : { at: one.since_ms }), "aria-label": "The moment when it began" });
    begun.append(since(one.since_ms));
    row.append(cell(one.severity, { class: "severity" }), cell(groupLink(one.label === undefined ? one.group_id : one.label, one.group_id), { class: "name" }), name, cell(begun, { class: "time" }), what);
    return row;
  }

  // Those that are like the ones above.
  function foldRow(one, open) {
    const row = element("tr", null, { class: `fold ${one.severity}` }), names = one.others.slice(0, 3).map(each => shownName(each.group_id)).join(", "), what = element("td", null, { class: "text" });
    what.append(Elements.button(`Show ${counted(one.others.length, "more group")}`, open), element("span", ` ${names}${one.others.length > 3 ? " and others" : ""}, the oldest `, { class: "quiet" }), since(Math.min(...one.others.map(each => each.since_ms))));
    row.append(cell(one.severity, { class: "severity" }), cell(`${one.others.length} more`, { class: "name" }), cell(one.name), cell(""), what);
    return row;
  }

  // ---- groups

  function strip(one, since_ms, until_ms, known_ms) {
    const spans = one.spans.map(([begin, end, severity]) => ({ since_ms: begin, until_ms: end, severity }));
    const found = [...new Set(one.spans.map(span => span[3]))], count = one.rebalances.reduce((sum, pair) => sum + pair[1], 0);
    return Strips.picture(since_ms, until_ms, spans, one.rebalances.map(([at, many]) => [at, one.width_ms || 300000, many]), [...found, counted(count, "rebalance")].join(", "), known_ms);
  }
  function groupRow(one) {
    const row = element("tr"), name = element("td", null, { class: "name" });
    // What happened in the last day counts as well: a group that has lost its offsets is not healthy now.
    const past = one.trouble && !(RANKS.indexOf(one.severity) >= RANKS.indexOf(one.trouble.severity)) ? one.trouble : null, severity = past ? past.severity : one.severity;
    name.append(element("span", null, { class: `tone ${TONES[severity] || "ok"}`, role: "img", "aria-label": past ? `${severity} in the last day` : severity || "no condition" }), groupLink(one.label, one.group_id));
    const what = element("td", null, { class: "what" }), risk = element("span", null, { class: `risk ${TONES[severity] || ""}` }), words = (past ? past.name : one.risk || "").split(".");
    words.forEach((word, at) => risk.append(...(at ? [element("wbr")] : []), at < words.length - 1 ? `${word}.` : word));
    if (past) risk.append(" ", since(past.at_ms));
    if (one.conditions.length > 1) risk.append(element("span", ` +${one.conditions.length - 1}`, { class: "quiet", title: one.conditions.map(each => each.name).join(", ") }));
    what.append(risk);
    if (one.conditions.length) what.append(" ", element("span", past ? `${one.conditions[0].name} goes on` : "still going", { class: `badge ${TONES[one.severity]}` }));
    if (one.text) what.append(element("div", safe(one.text, 400), { class: "quiet sentence", title: safe(one.text, 400) }));
    row.append(name, cell(one.type), cell(one.state, { class: `state ${/Rebalanc|Reconcil|Assigning|NotReady/.test(one.state) ? "moving" : ""}` }), cell(one.members === null ? "–" : String(one.members), { class: "number" }), what,
      element("td", null, { class: "wide" }), cell(since(one.rebalanced_ms), { class: "number" }), cell(one.commits === null ? "–" : String(one.commits), { class: "number" }), cell(expiry(one.expires_ms), { class: "number" }));
    return row;
  }
  function expiry(ms) {
    return ms === null ? "–" : element("time", ahead(ms), { "data-expires": ms, title: `not before ${moment(ms)}` });
  }

  // ---- cards

  function eventItem({ event, text }) {
    const data = event.data || {}, at = Date.parse(event.time), severity = data.status === "resolved" ? "OK" : Live.severityOf(event), made = element("li", null, { class: severity });
    made.append(element("time", clock(at, state.zone), { title: moment(at) }), element("span", null, { class: `tone ${TONES[severity]}`, role: "img", "aria-label": severity }));
    if (typeof data.group_id === "string") made.append(groupLink(event.subject || data.group_id, data.group_id, { at }));
    made.append(element("span", Live.nameOf(event), { class: "quiet" }), element("span", safe(text || "", 600), { class: "what" }));
    return made;
  }
  const dayMs = text => Date.parse(`${text}T00:00:00Z`);
  // A calendar of weeks that begin on Monday, from today (UTC) on; what is overdue is part of today.
  function calendar(days, chosen, choose) {
    const today = Math.floor((state.as_of === null ? Live.now() : state.as_of) / DAY_MS) * DAY_MS, byDay = new Map();
    for (const one of days) {
      const at = Math.max(dayMs(one.day), today), known = byDay.get(at) || { offsets: 0, groups: [], group_count: 0 };
      byDay.set(at, { offsets: known.offsets + one.offsets, groups: [...known.groups, ...one.groups], group_count: known.group_count + (one.group_count || one.groups.length) });
    }
    const first = today - ((new Date(today).getUTCDay() + 6) % 7) * DAY_MS, most = Math.max(1, ...[...byDay.values()].map(one => one.offsets));
    const nodes = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"].map(text => element("span", text, { class: "weekday" }));
    for (let at = first; at < first + 14 * DAY_MS; at += DAY_MS) {
      const found = byDay.get(at), name = day(at, "utc");
      const one = element("button", null, { type: "button", class: `day${at < today ? " past" : ""}${found ? " some" : ""}${at === today ? " today" : ""}`, "aria-pressed": String(chosen === at), "aria-label": `${name}: ${found ? `${counted(found.offsets, "offset")} of ${counted(found.group_count, "group")}` : "none"}` });
      one.append(element("span", name.slice(8)), element("span", found ? String(found.offsets) : "", { class: "many" }));
      if (found) { one.style.setProperty("--weight", `${Math.round(15 + 60 * found.offsets / most)}%`); one.addEventListener("click", () => choose(at)); } else one.disabled = true;
      nodes.push(one);
    }
    return { nodes, byDay };
  }
  function expiryItem(one) {
    const made = element("li");
    made.append(element("time", `from ${day(one.expires_ms, state.zone)} ${clock(one.expires_ms, state.zone).slice(0, 5)}`), groupLink(one.group_id), element("span", counted(one.offsets, "offset"), { class: "quiet" }));
    return made;
  }
  function topicPart(one) {
    const made = element("div", null, { class: "topic" }), list = element("ul", null, { class: "list" }), all = one.reader_count === undefined ? one.readers.length : one.reader_count;
    made.append(element("h3", safe(one.topic)), list);
    list.append(...one.readers.slice(0, 12).map(reader => {
      const item = element("li");
      item.append(element("span", null, { class: `tone ${TONES[reader.severity] || "ok"}`, role: "img", "aria-label": reader.severity || "no condition" }), groupLink(reader.group_id), element("span", reader.state, { class: "quiet" }));
      return item;
    }));
    if (all > 12) list.append(element("li", `and ${all - 12} more`, { class: "quiet" }));
    return made;
  }
  function committerRow(one) {
    const row = element("tr"), bar = element("span", null, { class: "share" });
    bar.style.width = `${Math.max(1, Math.round(100 * one.share))}%`;
    const name = cell(groupLink(one.group_id), { class: "name" });
    name.append(bar);
    row.append(name, cell(`${one.per_s === null ? "–" : one.per_s >= 10 ? Math.round(one.per_s) : Number(one.per_s.toPrecision(2))} /s`, { class: "number" }), cell(String(one.commits), { class: "number quiet" }));
    return row;
  }

  return { state, shownName, since, moment, showAges, keyed, empty, groupLink, conditionRow, foldRow, groupRow, strip, eventItem, calendar, expiryItem, topicPart, committerRow };
})();
