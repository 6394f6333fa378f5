"""Incidents of known cause: the diagnosis names the cause and the member; of healthy look-alikes it names none.

The table was written before the code. What a log does not hold gives fewer links, a gap in words, and no guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from groupreplay.timeline.causes import CAUSES
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.document import TimelineDocument
from support.diagnosed import histories
from support.diagnosed.incidents import INCIDENTS, Incident
from support.diagnosed.worlds import MINUTE, history
from support.histories.builders import CONTEXT
from support.histories.probed import PROBING


@cache
def document(number: int) -> TimelineDocument:
    """The timeline of an incident."""
    return INCIDENTS[number].world(0)


def stated(found: TimelineDocument) -> dict[str, frozenset[str]]:
    """Cause -> the members that are blamed."""
    causes: dict[str, frozenset[str]] = {}
    for statement in found.verdict:
        if statement.cause is not None:
            names = frozenset(member.name for member in statement.blamed)
            causes[statement.cause] = causes.get(statement.cause, frozenset()) | names
    return causes


def diagnosed() -> Iterator[tuple[Incident, TimelineDocument]]:
    """Every incident with its timeline."""
    yield from ((incident, document(number)) for number, incident in enumerate(INCIDENTS))


def test_causes_and_blame() -> None:
    """At least 95 % of the causes and 98 % of the blame are right; nothing is stated of a healthy group."""
    causes, blame, wrong = [], [], []
    for incident, found in diagnosed():
        if not incident.causes:
            continue
        told = stated(found)
        is_right = set(told) == set(incident.causes)
        causes.append(is_right)
        if is_right:
            blame.append(told == incident.causes)
        if told != incident.causes:
            wrong.append((incident.name, told))
    assert len(causes) >= 40
    assert sum(causes) >= 0.95 * len(causes), wrong
    assert sum(blame) >= 0.98 * len(blame), wrong


def test_healthy_groups() -> None:
    """No cause is stated, and a rolling restart is called one."""
    healthy = [(incident, found) for incident, found in diagnosed() if not incident.causes]
    assert len(healthy) >= 8
    assert [(incident.name, told) for incident, found in healthy if (told := stated(found))] == []
    for incident, found in healthy:
        assert incident.ok in " ".join(one.text for one in found.verdict), incident.name


def test_every_cause_is_proven_by_an_incident() -> None:
    """No row of the table is without one, but the deadline that only offsets have."""
    expected = {cause for incident in INCIDENTS for cause in incident.causes}
    assert {cause.name for cause in CAUSES} - expected == {"offsets_expiring"}
    assert expected <= {cause.name for cause in CAUSES}


def test_each_link_has_its_evidence() -> None:
    """An event of the document, a record or an answer; what is inferred or assumed says how, or what it rests on."""
    for incident, found in diagnosed():
        ids = {row.id for row in found.events}
        for link in (link for statement in found.verdict for link in statement.links):
            evidence = link.evidence
            assert evidence.events or evidence.records or evidence.probes_ms, (incident.name, link)
            assert set(evidence.events) <= ids, (incident.name, link)


def test_a_chain_is_in_its_order() -> None:
    """The cause first, what to do first last; each link once."""
    order = ("cause", "trigger", "stood_still", "waited_for", "ended", "cost", "still_wrong", "do_first")
    for incident, found in diagnosed():
        for statement in found.verdict:
            places = [order.index(link.kind) for link in statement.links]
            assert places == sorted(set(places)), (incident.name, statement.text)
            assert (statement.first is None) is (statement.cause is None)


def _gaps(found: TimelineDocument) -> list[str]:
    return [gap for statement in found.verdict for gap in statement.gaps]


def _main(found: TimelineDocument) -> Statement:
    return found.verdict[0]


def test_without_a_prober() -> None:
    """A rebalance that nobody saw is told when it is over, without whom it waited for; nothing is guessed."""
    found = history(*histories.silent_records(), context=replace(CONTEXT, complete_since_ms=0))(0)
    assert {kind for statement in found.verdict for kind in (link.kind for link in statement.links)} <= {
        "cause",
        "stood_still",
        "ended",
        "cost",
        "still_wrong",
        "do_first",
    }
    assert "silent_member" not in stated(found)
    assert (
        "No prober asked the brokers: a rebalance is seen when it has ended, and not whom it waited for."
        in _gaps(found)
    )


def test_a_capture_that_begins_inside_an_incident() -> None:
    """The rebalance had begun before the first record: its trigger is not known, and the gap is said."""
    records, answers = histories.silent_member()
    inside = [raw for raw in records if raw.at >= histories.BEGIN + 11 * MINUTE]
    later = [one for one in answers if one.taken_ms >= histories.BEGIN + 11 * MINUTE]
    found = history(inside, probes=later, context=PROBING)(0)
    assert "trigger" not in {link.kind for link in _main(found).links}
    whole = history(records, probes=answers, context=replace(PROBING, complete_since_ms=0))(0)
    assert stated(whole) == {"silent_member": frozenset({"client-b"})}
    assert stated(found) == {}
    assert _gaps(found) == [
        "The cause is not known: no generation of this group is known.",
        "What began the rebalance is not known.",
        "It had begun when the records begin: what was before is not known.",
    ]


def test_a_hanging_transaction() -> None:
    """One statement names each producer's; it explains that readers get no commit, and says what to do first."""
    found = histories.open_transaction(None, behind=2)(0)
    statement = _main(found)
    texts = {link.kind: link.text for link in statement.links}
    assert statement.text.endswith("There were 2 more, the longest one since 00:10:01 (19 min 59 s).")
    assert texts["cause"].startswith(
        "Producer 4711 (epoch 0) began a transaction at 00:10:00 and has not ended it: "
    )
    assert texts["cost"] == "20 min 0 s without a readable commit on 4 partitions."
    assert statement.first is not None
    assert statement.first.command == (
        "kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic __consumer_offsets --partition 0"
    )
    assert "commits.paused" in {row.name for row in found.events}
    assert "commits_stopped" not in stated(found)
    over = _main(histories.open_transaction(12 * MINUTE)(0)).first
    assert over is not None
    assert over.text == "See whether the producer lives, and when it wrote last; its transaction has ended"


def test_numbers_that_nobody_has_given() -> None:
    """What rests on the assumed retention says so, as the certainty of the link and as a gap."""
    found = histories.expired(retention_ms=None)(0)
    (statement,) = [one for one in found.verdict if one.cause == "offsets_expired"]
    assert statement.links[0].certainty == "assumed"
    assert any("retention 7 d 0 h" in gap for gap in statement.gaps)


def test_why_nothing_is_known() -> None:
    """A pause of a topic that may have been quiet has no cause, and the reason is said."""
    found = histories.quiet_topic()(0)
    assert "The cause is not known: the log does not show whether the topic had new records." in _gaps(found)
