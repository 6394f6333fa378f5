// Requests to the API and its stream of events: the token, errors, and connections that end and begin again.
"use strict";
const Live = (() => {
  const { clock, age } = Format;
  const { byId } = Elements;
  const KEY = "groupreplay.token", TIMEOUT_MS = 30000, SILENT_MS = 45000, SHORTEST_MS = 1000, LONGEST_MS = 30000;
  // The server's clock, carried on by the page's own: that of the machine may be wrong, or be set. [ms, performance.now()]
  let server = null;
  // When this page received something last, by performance.now().
  let heard = performance.now();

  class Failure extends Error {
    constructor(text, status = 0, wait_ms = 0) { super(text); this.status = status; this.wait_ms = wait_ms; }
  }

  // ---- the token: from the fragment of the address, which browsers do not send, into this tab's storage

  const fromAddress = Address.take("token");
  if (fromAddress !== null) sessionStorage.setItem(KEY, fromAddress);
  const hasToken = () => Boolean(sessionStorage.getItem(KEY));
  const setToken = text => sessionStorage.setItem(KEY, text);
  function headers(more = {}) {
    const token = sessionStorage.getItem(KEY);
    return token ? { Authorization: `Bearer ${token}`, ...more } : more;
  }

  // ---- requests

  function address(path, parameters = {}) {
    const given = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined && one !== "") given.append(name, one);
    }
    const text = given.toString();
    return text ? `${path}?${text}` : path;
  }
  async function failure(response) {
    let text = `the server answered ${response.status}`;
    try { text = (await response.json()).error || text; } catch (error) { /* No JSON: a proxy has answered. */ }
    return new Failure(text, response.status, 1000 * Number(response.headers.get("Retry-After") || 0));
  }
  async function get(path, parameters) {
    let response;
    try {
      response = await fetch(address(path, parameters), { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch (error) {
      throw new Failure(error.name === "TimeoutError" ? "the server did not answer in time" : "the server cannot be reached");
    }
    if (!response.ok) throw await failure(response);
    heard = performance.now();
    try { return await response.json(); } catch (error) { throw new Failure("the answer of the server ended early"); }
  }
  // The same before it returns: a browser that prints waits for no promise.
  function getAtOnce(path, parameters) {
    const request = new XMLHttpRequest();
    request.open("GET", address(path, parameters), false);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    try { request.send(); } catch (error) { throw new Failure("the server cannot be reached"); }
    if (request.status !== 200) throw new Failure(`the server answered ${request.status}`, request.status);
    try { return JSON.parse(request.responseText); } catch (error) { throw new Failure("the answer of the server ended early"); }
  }
  const now = () => server === null ? Date.now() : server[0] + performance.now() - server[1];
  function setNow(ms) { server = [ms, performance.now()]; }

  // A function that reads something again when it is called: one request at a time, not sooner than `least_ms` after the last one
  // began, and later when the server is slow. A hidden page reads when it is shown again.
  function reader(read, least_ms) {
    let running = false, wanted = false, timer = null, last = -Infinity, took = 0, wait_ms = 0;
    async function run() {
      timer = null;
      if (running || document.hidden) { wanted = true; return; }
      running = true; wanted = false; last = performance.now(); wait_ms = 0;
      try { await read(); } catch (error) {
        if (!(error instanceof Failure)) throw error;
        wait_ms = error.wait_ms;
        if (error.status === 429 || error.status === 503) wanted = true;
      } finally {
        took = performance.now() - last;
        running = false;
        if (wanted) ask();
      }
    }
    function ask() {
      wanted = true;
      if (running || timer !== null) return;
      timer = setTimeout(run, Math.max(wait_ms, last + Math.max(least_ms, 4 * took) - performance.now(), 0));
    }
    addEventListener("visibilitychange", () => { if (!document.hidden && wanted) ask(); });
    return ask;
  }

  const nameOf = event => String(event.type).replace(/^groupreplay\./, "").replace(/\.v\d+$/, "");
  const severityOf = event => ["INFO", "WARN", "ERROR"].includes(event.severitytext) ? event.severitytext : "INFO";

  // ---- the stream of events, by fetch: EventSource cannot send the token

  // Frames of `text/event-stream`; returns the rest that is not complete yet.
  function frames(text, act) {
    const parts = text.split(/\r?\n\r?\n/), rest = parts.pop();
    for (const part of parts) {
      const frame = { event: "message", data: [], id: null };
      for (const line of part.split(/\r?\n/)) {
        const found = /^(data|event|id):\x20?(.*)$/s.exec(line);
        if (found && found[1] === "data") frame.data.push(found[2]);
        else if (found) frame[found[1]] = found[2];
      }
      act(frame);
    }
    return rest;
  }

  // Follows a stream until `stop` is called. `on` has opened(), event({event, text}), reset(), lost(retry, why), denied(failure).
  function follow(parameters, on) {
    let stopped = false, control = null, place = null, wait_ms = SHORTEST_MS, wake = () => {};
    const pause = ms => new Promise(done => { const timer = setTimeout(done, ms); wake = () => { clearTimeout(timer); done(); }; });
    function take(frame) {
      if (frame.id !== null) place = frame.id;
      if (frame.event === "reset") { on.reset(); return; }
      if (frame.data.length) on.event(JSON.parse(frame.data.join("\n")));
    }
    async function once() {
      control = new AbortController();
      let timer = setTimeout(() => control.abort(), SILENT_MS), rest = "";
      try {
        const response = await fetch(address("/api/events/stream", parameters), { headers: headers(place === null ? {} : { "Last-Event-ID": place }), cache: "no-store", signal: control.signal });
        if (!response.ok) throw await failure(response);
        wait_ms = SHORTEST_MS; heard = performance.now();
        on.opened();
        const decoder = new TextDecoder(), body = response.body.getReader();
        for (;;) {
          const { done, value } = await body.read();
          if (done) return;
          clearTimeout(timer);
          timer = setTimeout(() => control.abort(), SILENT_MS);
          heard = performance.now();
          rest = frames(rest + decoder.decode(value, { stream: true }), take);
        }
      } finally { clearTimeout(timer); control.abort(); }
    }
    async function run() {
      while (!stopped) {
        let why = "the server ended the connection", longest = 0;
        try { await once(); } catch (error) {
          if (error instanceof Failure) {
            if (error.status === 401) { on.denied(error); return; }
            why = error.message; longest = error.wait_ms;
          } else if (error.name === "AbortError") why = "the server was silent";
          else if (error instanceof TypeError) why = "the server cannot be reached";
          else why = String(error);
        }
        if (stopped) return;
        const retry_ms = Math.max(wait_ms * (0.75 + 0.5 * Math.random()), longest);
        wait_ms = Math.min(wait_ms * 2, LONGEST_MS);
        on.lost(performance.now() + retry_ms, why);
        await pause(retry_ms);
      }
    }
    const retry = () => wake(), stop = () => { stopped = true; if (control) control.abort(); wake(); };
    addEventListener("online", retry);
    run();
    return { retry, stop };
  }

  // ---- what every page shows: the bar of a lost connection, the form for the token

  let stream = null, again = () => {}, lost = null;
  function showBar(zone = "utc") {
    byId("connection").classList.toggle("hidden", !lost);
    if (!lost) return;
    const left = Math.max(0, Math.ceil((lost.retry - performance.now()) / 1000)), silent_ms = performance.now() - heard;
    // Without an answer this page does not know the time: that of the machine may be wrong.
    const since = server === null ? "Not connected" : `Connection lost since ${clock(now() - silent_ms, zone)} (${age(silent_ms)})`;
    byId("connection-text").textContent = `${since}: ${lost.why}. ${left ? `Next try in ${left} s.` : "Trying now."}${server === null ? "" : " Nothing on this page is newer."}`;
  }
  // Follows events for the page; it reads everything again after a reset.
  function connect(parameters, on) {
    if (stream) stream.stop();
    stream = follow(parameters, {
      opened: () => { const back = lost; lost = null; showBar(); document.documentElement.dataset.stream = "open"; on.opened(Boolean(back)); },
      event: on.event, reset: on.reset,
      lost: (retry, why) => { lost = { retry, why }; document.documentElement.dataset.stream = "lost"; showBar(); },
      denied: askForToken,
    });
  }
  function askForToken(error) {
    if (stream) stream.stop();
    stream = null;
    byId("token-form").classList.remove("hidden");
    byId("content").classList.add("hidden");
    byId("token-why").textContent = hasToken() ? `The token of this page was refused: ${error.message}.` : "This server asks for a token, and this page has none.";
    byId("token").focus();
  }
  // `begin` starts over, after a token was given.
  function listen(begin) {
    again = begin;
    byId("connection-retry").addEventListener("click", () => stream && stream.retry());
    byId("token-form").addEventListener("submit", event => {
      event.preventDefault();
      setToken(byId("token").value.trim());
      byId("token").value = "";
      byId("token-form").classList.add("hidden");
      byId("content").classList.remove("hidden");
      again();
    });
    addEventListener("hashchange", () => {
      const given = Address.take("token");
      if (given === null) return;
      setToken(given);
      location.reload();
    });
  }

  return { Failure, get, getAtOnce, reader, now, setNow, nameOf, severityOf, connect, askForToken, listen, showBar };
})();
