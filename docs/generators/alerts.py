"""The alerts of conditions: the rules in ``deploy/prometheus`` and the rows in ``docs/monitoring.md``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from generators.markdown import row
from groupreplay.state.conditions.condition import Alert, Condition
from groupreplay.state.conditions.registry import CONDITIONS, OF_THE_JOB
from groupreplay.state.conditions.tracker import runbook_section

RUNBOOK: Final = "https://runbook.example.com/groupreplay"
#: A condition that this release does not know.
LATER: Final = "of.a_later_release"
_WIDTH: Final = 100

_EXPRESSION: Final = """\
- alert: {name}
  expr: |
    {series} > 0{unless}
    or (
      label_replace(ALERTS{{alertname="{name}", alertstate="firing"}}, "alertstate", "", "", "")
      unless on (cluster) {job_is_back}
    )
"""
#: What began in a group with an incident, or later, has the alert of the incident: one cause is one page.
_UNLESS: Final = """
    unless on (cluster, consumergroup) (
      {series} >= on (cluster, consumergroup) group_left ()
      (min by (cluster, consumergroup) (kafka_consumergroup_incident_since_timestamp_seconds) - 10)
    )"""
_SEVERITY: Final = """\
  labels: &severity
    severity: '{{ if or (eq $labels.severity "ERROR") (eq $labels.severity "critical") }}critical{{ else }}warning{{ end }}'
"""
#: Annotations from what is known of the condition, by its id; the first line is the metric with its begin.
_SINCE: Final = """\
    <<: &ANCHOR
      since: >-
        {{ with printf "max_over_time(METRIC{condition_id=%q}[1d]) > 0" $labels.condition_id | query -}}
        {{ . | first | value | humanizeTimestamp }}{{ end }}
      page_url: >-
        {{ with printf "groupreplay_pages_info{cluster=%q}" $labels.cluster | query -}}
        {{ . | first | label "url" }}{{ else }}https://groupreplay.example.com{{ end -}}
        /{{ with $labels.consumergroup }}groups/{{ reReplaceAll "[+]" "%20" (urlquery .) }}{{ end -}}
        ?cluster={{ urlquery $labels.cluster }}
        {{- with printf "1000 * max_over_time(METRIC{condition_id=%q}[1d]) > 0" $labels.condition_id | query -}}
        &at={{ . | first | value | printf "%.0f" }}{{ end }}
"""
_WHO: Final = """\
      who: >-
        {{ with printf "kafka_consumergroup_condition_info{condition_id=%q}" $labels.condition_id | query -}}
        {{ . | first | label "who" }}{{ end }}
"""
_RUNBOOK_OF_GROUP: Final = """\
    runbook_url: >-
      {{ with printf "kafka_consumergroup_condition_info{condition_id=%q, runbook=~\\"https?:.+\\"}" $labels.condition_id | query -}}
      {{ . | first | label "runbook" }}{{ else }}RUNBOOK#SECTION{{ end }}
"""
_LABELS: Final = {
    "group": "{{ $labels.consumergroup }}",
    "cluster": "{{ $labels.cluster }}",
    "what": "{{ $labels.what }}",
    "condition": "{{ $labels.condition }}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of Prometheus: ``matchers`` select the series of the condition; ``labels`` are some of such a series."""

    name: str
    alert: Alert
    matchers: str
    labels: dict[str, str]
    section: str
    of_job: bool
    row: str

    @property
    def metric(self) -> str:
        """The metric that has the begin of the condition."""
        prefix = "groupreplay" if self.of_job else "kafka_consumergroup"
        return f"{prefix}_condition_since_timestamp_seconds"


def _rule(kind: type[Condition], alert: Alert) -> Rule:
    condition, of_job = alert.label or kind.NAME, kind.NAME in OF_THE_JOB
    words = "".join(word.capitalize() for word in re.split("[._]", condition))
    matchers, labels, text = f'condition="{condition}"', {"condition": condition}, alert.fires
    elsewhere = [other.what for other in kind.ALERTS if other.what]
    if alert.what:
        matchers, labels = f'{matchers}, what="{alert.what}"', {**labels, "what": alert.what}
    elif elsewhere:
        others = ", ".join(f'what!="{what}"' for what in elsewhere)
        matchers, labels = f"{matchers}, {others}", {**labels, "what": "else"}
    if not alert.what and not alert.label:
        text += f" (`{kind.NAME}`)"
    return Rule(
        name=alert.name or ("GroupReplay" if of_job else "ConsumerGroup") + words,
        alert=alert,
        matchers=matchers,
        labels=labels,
        section=runbook_section(kind.NAME),
        of_job=of_job,
        row=text,
    )


def _all_others(rules: Sequence[Rule]) -> Rule:
    """The rule for every condition of a group without one of its own, also for those of a later release."""
    known = "|".join(rule.labels["condition"].replace(".", "[.]") for rule in rules)
    fires = "any other condition of a group, also one of a later release"
    alert = Alert(
        fires=fires,
        summary="{condition} in {group}",
        description="Group {group} of cluster {cluster} has the condition {condition}. The runbook has a section for it.",
    )
    return Rule(
        name="ConsumerGroupCondition",
        alert=alert,
        matchers=f'condition!~"{known}"',
        labels={"condition": LATER},
        section='{{ reReplaceAll "[._]" "-" $labels.condition }}',
        of_job=False,
        row=fires,
    )


_RULES: Final = [_rule(kind, alert) for kind in CONDITIONS for alert in kind.ALERTS]
OF_JOB: Final = [rule for rule in _RULES if rule.of_job]
OF_GROUPS: Final = [rule for rule in _RULES if not rule.of_job]
OF_GROUPS.append(_all_others(OF_GROUPS))


def rules(of_kind: Sequence[Rule]) -> str:
    """These rules, in YAML."""
    return "".join(textwrap.indent(f"{_yaml(rule, rule is of_kind[0])}\n", " " * 6) for rule in of_kind)


def _yaml(rule: Rule, is_first: bool) -> str:
    """One rule; the first one of the job or of groups declares what the others repeat."""
    anchor = "known_of_job" if rule.of_job else "known"
    job_is_back = "groupreplay_query_up >= 0" if rule.of_job else "groupreplay_job_up == 1"
    series = f"{rule.metric}{{{rule.matchers}}}"
    unless = "" if rule.of_job else _UNLESS.format(series=series)
    text = _EXPRESSION.format(name=rule.name, series=series, unless=unless, job_is_back=job_is_back)
    text += "  labels: *severity\n" if rule.of_job or not is_first else _SEVERITY
    text += "  annotations:\n"
    if is_first:
        text += _SINCE.replace("METRIC", rule.metric).replace("ANCHOR", anchor) + (
            "" if rule.of_job else _WHO
        )
    else:
        text += f"    <<: *{anchor}\n"
    text += f'    summary: "{rule.alert.summary.format(**_LABELS)}"\n    description: >-\n'
    # No line ends within the braces of a label.
    kept = {name: label.replace(" ", "\xa0") for name, label in _LABELS.items()}
    wrapped = textwrap.fill(rule.alert.description.format(**kept), _WIDTH, break_on_hyphens=False)
    text += textwrap.indent(wrapped.replace("\xa0", " "), " " * 6) + "\n"
    if rule.of_job:
        return f"{text}    runbook_url: {RUNBOOK}#{rule.section}\n"
    return text + _RUNBOOK_OF_GROUP.replace("RUNBOOK", RUNBOOK).replace("SECTION", rule.section)


def rows(of_kind: Sequence[Rule]) -> str:
    """The rows of the table of alerts."""
    return "\n".join(row(f"`{rule.name}`", rule.row, "the condition's") for rule in of_kind)
