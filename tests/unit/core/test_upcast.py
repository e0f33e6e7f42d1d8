"""Upcasts: old versions read as the newest."""

from __future__ import annotations

import pytest

from counterfoil.core.upcast import Upcasts
from counterfoil.errors import InvalidForm, UnknownEventType


@pytest.fixture
def upcasts() -> Upcasts:
    made = Upcasts()
    made.register("order.paid", 1, lambda data, content: ({**data, "kind": "web"}, content))
    made.register(
        "order.paid", 2, lambda data, content: (data, None if content is None else {**content, "v": 3})
    )
    return made


def test_a_payload_is_taken_through_every_step(upcasts):
    assert upcasts.apply("order.paid", 1, {"a": 1}, {"b": 2}) == (
        3,
        {"a": 1, "kind": "web"},
        {"b": 2, "v": 3},
    )


def test_a_payload_of_the_middle_version_skips_the_first_step(upcasts):
    assert upcasts.apply("order.paid", 2, {"a": 1}, None) == (3, {"a": 1}, None)


def test_erased_content_stays_erased(upcasts):
    assert upcasts.apply("order.paid", 1, {}, None)[2] is None


@pytest.mark.parametrize("version", [3, 4])
def test_a_payload_of_the_newest_or_a_newer_version_is_left_alone(upcasts, version):
    assert upcasts.apply("order.paid", version, {"a": 1}, {}) == (version, {"a": 1}, {})


def test_a_type_without_steps_is_left_alone(upcasts):
    assert upcasts.apply("order.sent", 7, {"a": 1}, {}) == (7, {"a": 1}, {})
    assert upcasts.newest("order.sent") == 1


def test_a_missing_step_is_named():
    made = Upcasts()
    made.register("order.paid", 2, lambda data, content: (data, content))
    with pytest.raises(UnknownEventType) as refusal:
        made.apply("order.paid", 1, {}, {})
    assert (refusal.value.event_type, refusal.value.version) == ("order.paid", 1)


def test_a_step_is_registered_once(upcasts):
    with pytest.raises(InvalidForm):
        upcasts.register("order.paid", 1, lambda data, content: (data, content))


@pytest.mark.parametrize("event_type, version", [("order", 1), ("order.paid", 0), ("order.paid", True)])
def test_a_step_belongs_to_a_type_and_a_version(upcasts, event_type, version):
    with pytest.raises(InvalidForm):
        upcasts.register(event_type, version, lambda data, content: (data, content))
