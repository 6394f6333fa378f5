// What a page knows of a cluster: up to when, and why not more. Ages count to that time, never to the clock of the browser.
"use strict";
const Knowledge = (() => {
  const { safe, day, clock, age } = Format;
  const moment = (ms, zone) => `${day(ms, zone)} ${clock(ms, zone)}`;
  // For how long something holds, as far as is known.
  const heldFor = (since_ms, one, zone) => one.known_until_ms === null ? `since ${moment(since_ms, zone)}` : `for ${age(one.known_until_ms - since_ms)}`;
  const wasRead = one => one.job.heartbeat_ms !== null;

  // Of when what is shown of groups is; empty: nothing is shown of them.
  function asOf(one, zone) {
    if (one.known_until_ms !== null) return `as of ${moment(one.known_until_ms, zone)}`;
    return one.history_until_ms === null ? "" : `from the history of this server, whose newest event was written ${moment(one.history_until_ms, zone)}`;
  }
  const noAnswer = (answers, zone) => `no answer ${answers.answered_ms === null ? "yet" : `since ${moment(answers.answered_ms, zone)}`} (${safe(answers.error, 400)}). This server tries again every few seconds`;
  // Why what is shown may not be what is: null when the job is up and has caught up. `text` says since when, and what to do.
  function doubt(one, zone) {
    const { job, kafka } = one, made = (tone, short, text) => ({ tone, short, text });
    if (kafka.error) return made("error", "Kafka cannot be reached", `Kafka cannot be reached from this server: ${noAnswer(kafka, zone)}. Whether the job runs is not known.`);
    if (one.error) return made("error", "not readable", `The job's topics cannot be read now: ${safe(one.error, 300)}. This server tries again every few seconds.`);
    if (!wasRead(one)) return made("error", "no job", `Nothing is known of this cluster: ${safe(job.error, 300)}.${job.error === "there is no job yet" ? " Start groupreplay run." : ""}`);
    if (one.history_error) return made("error", "not stored", `This server cannot store what it reads: ${safe(one.history_error, 300)}. What is shown may be older than that of the job.`);
    if (job.up === null) return made("warn", "no heartbeat yet", `Kafka answers since ${moment(kafka.since_ms, zone)}, and the job has written nothing since then: whether it runs is not known yet.`);
    if (!job.up && job.silent && job.once) return made("error", "no run", `No single run of the job has caught up since ${job.caught_up_ms === null ? "ever" : moment(job.caught_up_ms, zone)}. Look why run --once does not end well.`);
    if (!job.up && job.silent) return made("error", "job down", `The job is down: Kafka answers, and the last heartbeat was written ${moment(job.heartbeat_ms, zone)}${kafka.answered_ms === null ? "" : `, ${age(kafka.answered_ms - job.heartbeat_ms)} ago`}. Look at groupreplay run${job.host ? ` on ${safe(job.host, 100)}` : ""}.`);
    if (!job.up) return made("error", "job reads nothing", `The job runs and reads nothing: ${safe(job.error || "its query is stopped", 300)}.`);
    if (one.log_kafka && one.log_kafka.error) return made("warn", "log not readable", `The cluster with the offsets topic cannot be reached from this server: ${noAnswer(one.log_kafka, zone)}. Pages of groups have no newer members, partitions and commits.`);
    if (job.error) return made("warn", "job in trouble", `The job reports: ${safe(job.error, 300)}`);
    if (one.caught_up_ms === null) return made("warn", "not caught up", "The job has not caught up with the offsets topic yet: what it has not read is missing here.");
    if (one.clock_off_ms !== null && Math.abs(one.clock_off_ms) > 5000) return made("warn", "clock is off", `The clock of this server is ${age(Math.abs(one.clock_off_ms))} ${one.clock_off_ms > 0 ? "ahead of" : "behind"} that of the brokers. Its times are corrected by that; set the clock.`);
    if (job.behind_ms > 60000) return made("warn", `${age(job.behind_ms)} behind`, `The job is ${age(job.behind_ms)} behind the offsets topic.`);
    return null;
  }
  // A sentence of it about something; empty if it is not known.
  function asOfText(what, one, zone) { const text = asOf(one, zone); return text ? ` ${what} ${text}.` : ""; }
  return { moment, age, heldFor, asOf, asOfText, doubt, wasRead };
})();
