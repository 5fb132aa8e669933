from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import ConfigError
from monitor.model.slo import Indicator
from monitor.slo.load import load_slos

SLO = """
apiVersion: openslo/v1
kind: SLO
metadata:
  name: first-token
  displayName: First token
spec:
  description: fast first tokens
  service: chat
  indicator:
    metadata: {name: ttft}
    spec:
      thresholdMetric:
        metricSource:
          type: acceptd
          spec: {indicator: time_to_first_token, group: chat, minimum_events: 100}
  timeWindow:
    - {duration: 4w, isRolling: true}
  budgetingMethod: Occurrences
  objectives:
    - {op: lte, value: 1.5, target: 0.99}
"""
RATIO = """
apiVersion: openslo/v1
kind: SLI
metadata: {name: answers}
spec:
  ratioMetric:
    counter: true
    good: {metricSource: {type: acceptd, spec: {indicator: availability}}}
    total: {metricSource: {type: acceptd, spec: {indicator: availability}}}
---
apiVersion: openslo/v1
kind: Service
metadata: {name: chat}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: answers}
spec:
  service: chat
  indicatorRef: answers
  budgetingMethod: Occurrences
  objectives:
    - {targetPercent: 99.5}
    - {target: 0.999}
"""
SLICES = """
apiVersion: openslo/v1
kind: SLO
metadata: {name: accepted}
spec:
  service: chat
  indicator: {spec: {thresholdMetric: {metricSource: {type: acceptd, spec: {indicator: acceptance}}}}}
  budgetingMethod: Timeslices
  objectives:
    - {op: gte, value: 0.6, target: 0.9, timeSliceTarget: 1.0, timeSliceWindow: 10}
"""


def test_a_threshold_of_occurrences() -> None:
    (policy,) = load_slos({"o.yaml": SLO})
    slo = policy.slo
    assert (slo.name, slo.indicator, slo.threshold, slo.objective) == (
        "first-token", Indicator.TIME_TO_FIRST_TOKEN, 1.5, 0.99,
    )
    assert (slo.period_days, slo.group, slo.minimum_events) == (28.0, "chat", 100.0)
    assert (policy.where, policy.description) == ("o.yaml:5", "fast first tokens")


def test_a_ratio_by_reference_with_two_objectives_and_the_default_window() -> None:
    one, two = load_slos({"o.yaml": RATIO})
    assert [(p.slo.name, p.slo.indicator, p.slo.objective, p.slo.period_days) for p in (one, two)] == [
        ("answers-1", Indicator.AVAILABILITY, 0.995, 30.0),
        ("answers-2", Indicator.AVAILABILITY, 0.999, 30.0),
    ]


SOURCE = """
apiVersion: openslo/v1
kind: DataSource
metadata: {name: here}
spec: {type: acceptd, connectionDetails: {}}
---"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"---\n{SLO}\n---\n", id="between markers of documents"),
        pytest.param(f"{SOURCE}{SLO.replace('type: acceptd', 'metricSourceRef: here')}", id="type in a DataSource"),
    ],
)
def test_what_other_tools_write_is_read_as_well(text: str) -> None:
    (policy,) = load_slos({"o.yaml": text})
    assert policy.slo == load_slos({"o.yaml": SLO})[0].slo


def test_a_name_may_begin_with_a_digit_and_a_percentage_is_what_it_says() -> None:
    text = SLO.replace("name: first-token", "name: 95th-first-token").replace("target: 0.99", "targetPercent: 99.9")
    (policy,) = load_slos({"o.yaml": text})
    assert (policy.slo.name, policy.slo.objective) == ("95th-first-token", 0.999)


def test_time_slices() -> None:
    (policy,) = load_slos({"o.yaml": SLICES})
    assert (policy.slo.threshold, policy.slo.slice_seconds, policy.slo.report_only) == (0.6, 600.0, True)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (SLO, "openslo/v1", "openslo/v1alpha", "o.yaml:2:13: apiVersion: found 'openslo/v1alpha', expected openslo/v1"),
        (SLO, "type: acceptd", "type: Prometheus", "o.yaml:15:17: spec.indicator.spec.thresholdMetric"),
        (SLO, "time_to_first_token", "ttft", "found 'ttft', expected one of time_to_first_token"),
        (SLO, "minimum_events", "minimum", "spec.minimum: found an unknown key, expected one of indicator, group"),
        (SLO, "isRolling: true", "isRolling: false", "found False, expected a rolling window"),
        (SLO, "duration: 4w", "duration: 1M", "found '1M', expected a duration in days or weeks"),
        (SLO, "duration: 4w", "duration: 1d", "SLO first-token: period"),
        (SLO, "Occurrences", "Timeslices", "found 'Timeslices', expected Occurrences for time_to_first_token"),
        (SLO, "op: lte", "op: gte", "found 'gte', expected lte or lt for time_to_first_token"),
        (SLO, "value: 1.5", "value: fast", "expected a number (seconds for latencies)"),
        (SLO, "value: 1.5", "value: .inf", "o.yaml:21:24: SLO first-token: spec.objectives[0].value: found inf"),
        (SLO, "value: 1.5", "value: .nan", "found nan, expected a number (seconds for latencies)"),
        (SLO, "value: 1.5", "value: 0.0001", "found 0.0001, expected seconds, from 0.001 on"),
        (SLO, "kind: SLO", "kind: Slo", "o.yaml:3:7: kind: found 'Slo', expected one of SLO, SLI, DataSource"),
        (SLO, "kind: SLO", "kind: Service", "o.yaml:2:1: the file: found none, expected a document of `kind: SLO`"),
        (SLO, "description: fast first tokens", "description: 5", "o.yaml:8:16: SLO first-token: description: found 5"),
        (SLO, "type: acceptd", "metricSourceRef: there", "metricSource.type: found nothing, expected acceptd"),
        (RATIO, "total: {metricSource: {type: acceptd, spec: {indicator: availability", "total: {metricSource: {type: "
         "acceptd, spec: {indicator: uptime", "found another one, expected what good has"),
        (RATIO, "total: {metricSource: {type: acceptd", "total: {metricSource: {type: Prometheus",
         "total.metricSource.type: found 'Prometheus', expected acceptd"),
        (SLO, "target: 0.99", "target: 1.5", "o.yaml:21:37: SLO first-token: objective: found 1.5"),
        (SLO, "target: 0.99", "target: 0.5", "the burn rate is never above 1 / 0.5 = 2"),
        (SLO, "target: 0.99", "target: 0.99, targetPercent: 99", "found both, expected either target or targetPercent"),
        (SLO, "thresholdMetric", "ratioMetric", "expected a thresholdMetric or ratioMetric with a metricSource"),
        (RATIO, "indicatorRef: answers", "indicatorRef: answer", "expected one of answers; did you mean answers?"),
        (RATIO, "availability", "e2e_request", "expected a thresholdMetric for e2e_request"),
        (RATIO, "apiVersion: openslo/v1\nkind: Service", "kind: Service", "expected apiVersion: openslo/v1"),
        (SLICES, "Timeslices", "RatioTimeslices", "expected Timeslices for acceptance"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(ConfigError) as caught:
        load_slos({"o.yaml": text.replace(old, new)})
    assert message in str(caught.value)


@settings(deadline=None)
@given(st.data())
def test_any_part_may_be_anything(data: st.DataObject) -> None:
    lines = SLO.strip().splitlines()
    index = data.draw(st.integers(2, len(lines) - 1))
    key, colon, _ = lines[index].partition(":")
    lines[index] = key + colon + " " + data.draw(st.sampled_from(["", "[]", "{}", "3", "[{}]", "x", "true", "~"]))
    try:
        load_slos({"o.yaml": "\n".join(lines)})
    except ConfigError as error:
        assert error.problems
