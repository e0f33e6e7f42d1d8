"""Forms of header values beyond the vectors."""

from __future__ import annotations

import datetime

import pytest

from counterfoil.core import forms
from counterfoil.errors import InvalidForm

EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=45))


@pytest.mark.parametrize("time_ms", [0, 1, 999, 1788273068412, -1, -62135596800000, 253402300799999])
def test_milliseconds_become_a_time_and_back(time_ms):
    text = forms.time_text(time_ms)
    assert forms.is_time(text)
    assert forms.time_ms(text) == time_ms


@pytest.mark.parametrize("time_ms", [-62135596800001, 253402300800000, 10**18])
def test_a_time_outside_the_calendar_is_refused(time_ms):
    with pytest.raises(InvalidForm):
        forms.time_text(time_ms)


def test_a_text_that_is_no_time_is_refused():
    with pytest.raises(InvalidForm):
        forms.time_ms("2026-09-01T14:31:08Z")


@pytest.mark.parametrize(
    "check", [forms.is_time, forms.is_label, forms.is_name, forms.is_event_type, forms.is_decimal]
)
@pytest.mark.parametrize("thing", [None, 5, 1.5, True, b"a.b", ["a.b"], {"a": 1}])
def test_only_text_has_a_form(check, thing):
    assert not check(thing)


def test_digits_of_other_scripts_are_no_digits():
    assert not forms.is_time("\u0662\u0660\u0662\u0666-09-01T14:31:08.412Z")
    assert not forms.is_decimal("\u0664\u0660")
    assert not forms.is_digest("\uff41" * 64)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_from_outside_that_leaves_the_calendar_is_refused(text):
    with pytest.raises(InvalidForm):
        forms.parse_outside_time(text)


def test_the_same_name_is_hidden_otherwise_in_another_stream(stream, other_stream):
    hidden = [forms.hidden_name(one.material, "send_money") for one in (stream, stream, other_stream)]
    assert hidden[0] == hidden[1] != hidden[2]
    assert forms.is_name(hidden[0])


def test_a_name_with_a_lone_surrogate_can_be_hidden(stream):
    assert forms.is_name(forms.hidden_name(stream.material, "\ud800"))
