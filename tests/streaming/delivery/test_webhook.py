"""Events over real HTTP: what a receiver gets, what is logged when it fails, and that nothing is lost meanwhile."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event

from groupreplay.app.text.webhook_formats import FORMATS
from groupreplay.state.events.event import TYPE_PREFIX
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.delivery import webhook as module
from groupreplay.streaming.delivery.webhook import SECRET, Webhook
from support.histories.golden import load_events
from support.receiver import Receiver, receiving
from support.remedies import read_remedy

EVENTS = load_events()
FIRING, RESOLVED = EVENTS["rebalance.stuck"][:2]
HOUR_MS = 3_600_000


@dataclass
class Clock:
    """Time that the test sets."""

    at_ms: int = 0

    def __call__(self) -> int:
        return self.at_ms


def webhook(
    url: str, form: str = "cloudevents", secret_file: Path | None = None, clock: Clock | None = None
) -> Webhook:
    """One whose sending the test calls itself."""
    receiver = module.Receiver(url=url, form=FORMATS[form]("https://groups"), secret_file=secret_file)
    return Webhook(receiver=receiver, clock_ms=clock or Clock())


def given(outlet: Webhook, *events: dict[str, Any]) -> None:
    """Gives it what it chooses of these events, numbered from 0."""
    outlet.send(dict(enumerate(outlet.choose((), [json.dumps(event).encode() for event in events]))))


def test_cloud_events(tmp_path: Path) -> None:
    """The library of CloudEvents reads each request in structured mode; the token is read anew for each."""
    secret = tmp_path / "token"
    secret.write_text("first\n")
    with receiving() as receiver:
        outlet = webhook(receiver.url, secret_file=secret)
        given(outlet, FIRING)
        outlet.send_due()
        secret.write_text("second\n")
        given(outlet, RESOLVED)
        outlet.send_due()
    read = [from_structured_event(HTTPMessage(*request)) for request in receiver.asked]
    assert [event.get_id() for event in read] == [FIRING["id"], RESOLVED["id"]]
    assert receiver.taken == [FIRING, RESOLVED]
    assert [headers["authorization"] for headers, _ in receiver.asked] == ["Bearer first", "Bearer second"]


def test_pagerduty(tmp_path: Path) -> None:
    """A condition is one incident from its begin to its end, and other events are none."""
    secret = tmp_path / "key"
    secret.write_text("routing")
    with receiving() as receiver:
        outlet = webhook(receiver.url, "pagerduty", secret)
        given(outlet, FIRING, EVENTS["group.created"][0], RESOLVED)
        outlet.send_due()
    trigger, resolve = receiver.taken
    common = {"routing_key": "routing", "dedup_key": FIRING["data"]["condition_id"]}
    assert resolve == {**common, "event_action": "resolve"}
    payload = trigger.pop("payload")
    links = [{"href": "https://groups/groups/g?cluster=test-cluster&at=300000", "text": "page of the group"}]
    assert trigger == {**common, "event_action": "trigger", "links": links}
    assert (payload["severity"], payload["group"], payload["source"]) == ("critical", "g", FIRING["source"])
    assert payload["summary"].startswith("g: rebalance stuck: ")
    assert payload["custom_details"] == FIRING["data"]


def test_an_incident_of_many_groups_is_one_of_pagerduty() -> None:
    """It opens and resolves with the id of the incident."""
    actions = []
    for name in ("incident.opened", "incident.resolved"):
        (event,) = EVENTS[name][:1]
        request = FORMATS["pagerduty"](None)(json.dumps(event).encode(), "")
        assert request is not None
        body = json.loads(request.body)
        actions.append((body["event_action"], body["dedup_key"] == event["data"]["incident_id"]))
    assert actions == [("trigger", True), ("resolve", True)]


def test_slack_with_a_hostile_group(tmp_path: Path) -> None:
    """The address has the secret; what comes from records can neither link nor mention anybody."""
    secret = tmp_path / "path"
    secret.write_text("T0/B0/xyz")
    hostile = {**FIRING, "subject": "<!channel>", "data": {**FIRING["data"], "group_id": "<!channel>"}}
    with receiving() as receiver:
        outlet = webhook(f"{receiver.url}/{SECRET}", "slack", secret)
        given(outlet, hostile, RESOLVED)
        outlet.send_due()
    fired, resolved = (message["text"] for message in receiver.taken)
    assert fired.startswith(":red_circle: *&lt;!channel&gt;* rebalance stuck: ")
    assert resolved.startswith(":white_check_mark: *g* rebalance stuck: ")
    assert "<!" not in fired


@pytest.mark.parametrize("form", FORMATS)
def test_every_event_in_every_format(form: str) -> None:
    """No event of the golden ones is too strange, nor bytes that are no event."""
    encode = FORMATS[form](None)
    for event in (event for events in EVENTS.values() for event in events):
        assert event["type"].startswith(TYPE_PREFIX)
        request = encode(json.dumps(event).encode(), "s")
        assert request is None or json.loads(request.body)
    encode(b"{}", "s")


def test_an_outage_of_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens for an hour: nothing is lost, each event arrives once and in order, and two lines are logged."""
    clock = Clock()
    with receiving() as receiver:
        pass
    port = int(receiver.url.rpartition(":")[2].partition("/")[0])
    outlet = webhook(receiver.url, clock=clock)
    events = [{**FIRING, "id": f"event-{number}"} for number in range(60)]
    for number, event in enumerate(events):
        outlet.send({number: json.dumps(event).encode()})
        outlet.send_due()
        clock.at_ms += HOUR_MS // 60
    assert outlet.deliveries.waiting == 60
    with receiving(port) as receiver:
        outlet.send_due()
    assert receiver.taken == events
    assert sorted(outlet.arrived()) == list(range(60))
    read_remedy("streaming.delivery.webhook: … wait, and", caplog.records[0].message)
    read_remedy("streaming.delivery.webhook: … wait", caplog.records[1].message)
    assert [record.message.partition(",")[0].partition(";")[0] for record in caplog.records] == [
        f"no event reaches http://127.0.0.1:{port}",
        f"events reach http://127.0.0.1:{port} again",
    ]


def test_an_outage_of_an_hour_is_one_incident_each(tmp_path: Path) -> None:
    """Conditions that begin and end while PagerDuty is away: each opens once and is resolved once, in this order."""
    secret, clock = tmp_path / "key", Clock()
    secret.write_text("routing")
    conditions = [f"condition-{number}" for number in range(30)]
    with receiving() as receiver:
        receiver.status = 503
        outlet = webhook(receiver.url, "pagerduty", secret, clock)
        for number, condition in enumerate(conditions):
            for place, event in enumerate((FIRING, RESOLVED)):
                data = {**event["data"], "condition_id": condition, "group_id": f"g{number}"}
                told = {**event, "id": f"{condition}-{place}", "subject": f"g{number}", "data": data}
                outlet.send({2 * number + place: json.dumps(told).encode()})
            outlet.send_due()
            clock.at_ms += HOUR_MS // 30
        assert (receiver.taken, outlet.deliveries.waiting) == ([], 60)
        receiver.status = 202
        outlet.send_due()
    made: dict[str, list[str]] = {}
    for message in receiver.taken:
        made.setdefault(message["dedup_key"], []).append(message["event_action"])
    assert made == {condition: ["trigger", "resolve"] for condition in conditions}


def refused(status: int, tmp_path: Path, **headers: str) -> tuple[Receiver, Webhook, Clock]:
    """A receiver that has answered with this status for an hour, and then with 202."""
    secret, clock = tmp_path / "token", Clock()
    secret.write_text("expired")
    with receiving() as receiver:
        receiver.status, receiver.headers = status, headers
        outlet = webhook(f"{receiver.url}", secret_file=secret, clock=clock)
        given(outlet, *({**FIRING, "subject": f"g{number}", "id": str(number)} for number in range(5)))
        for _ in range(60):
            outlet.send_due()
            clock.at_ms += 60_000
        assert (receiver.taken, outlet.deliveries.waiting) == ([], 5)
        asked = len(receiver.asked)
        assert 6 < asked < 70
        receiver.status = 202
        for _ in range(4):
            outlet.send_due()
            clock.at_ms += HOUR_MS
        assert sorted(event["id"] for event in receiver.taken) == [str(number) for number in range(5)]
    return receiver, outlet, clock


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refuses an event"),
        (401, "its secret has expired or is wrong"),
        (403, "its secret has expired or is wrong"),
        (404, "it answers 404: as the test wants"),
        (429, "it answers 429"),
        (302, "it has another address now"),
        (503, "it answers 503"),
    ],
)
def test_an_hour_of_refusals(
    status: int, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At most one attempt a minute, a sentence that says why, and all events arrive when it takes them."""
    caplog.set_level(logging.WARNING)
    refused(status, tmp_path, Location="http://127.0.0.1:1/other")
    assert words in caplog.records[0].message
    if status == 400:
        read_remedy("streaming.delivery.webhook: it is kept,", caplog.records[0].message)
    assert "expired\n" not in caplog.text


@pytest.mark.parametrize(
    ("url", "has_secret", "key"),
    [
        ("ftp://h/x", False, "streaming.delivery.webhook: write https"),
        ("https://user:password@h/x", False, "streaming.delivery.webhook: give it in"),
        ("https://h/{secret}", False, "streaming.delivery.webhook: give --webhook-secret-file"),
        ("https://h/x", True, "streaming.delivery.webhook: write the secret"),
    ],
)
def test_addresses_that_cannot_be_used(url: str, has_secret: bool, key: str, tmp_path: Path) -> None:
    """Refused at the start; no message has a password."""
    with pytest.raises(GroupReplayError) as error:
        webhook(url, secret_file=tmp_path / "missing" if has_secret else None)
    read_remedy(key, str(error.value))
    assert "user:" not in str(error.value)


def test_what_does_not_fit_into_memory_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is lost, forgotten by the state file, and an error says so."""
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    outlet = webhook("http://127.0.0.1:1/")
    given(outlet, FIRING, RESOLVED)
    assert (outlet.lost, list(outlet.arrived())) == (1, [1])
    read_remedy("streaming.delivery.webhook: more than", caplog.records[-1].message)
