"""Key-encryption keys in an environment variable."""

from __future__ import annotations

import pytest

from counterfoil.abc import EpochKeyProvider
from counterfoil.errors import KeyDamaged, KeyWithheld
from counterfoil.keys import wrapping
from counterfoil.keys.environment import VARIABLE, EnvironmentKeyProvider

OLD, NEW = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PM"
DATA_KEY = bytes(range(32))


def provider_of(text):
    return EnvironmentKeyProvider(environment={VARIABLE: text})


def test_the_greatest_id_is_the_current_epoch():
    assert provider_of(f"{NEW}={'ab' * 32}, {OLD}={'cd' * 32}").current() == NEW


def test_a_data_key_is_wrapped_under_the_key_in_the_variable():
    provider = provider_of(f"{OLD}={'ab' * 32}")
    assert provider.wrap(OLD, DATA_KEY) == wrapping.wrap(b"\xab" * 32, DATA_KEY)
    assert provider.unwrap(OLD, provider.wrap(OLD, DATA_KEY)) == DATA_KEY
    assert provider.derive(OLD, "subject-box") == wrapping.derive(b"\xab" * 32, "subject-box")


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: " , "}])
def test_an_empty_variable_withholds_every_key(environment):
    with pytest.raises(KeyWithheld, match=VARIABLE):
        EnvironmentKeyProvider(environment=environment).current()


def test_a_key_that_the_variable_does_not_hold_is_withheld():
    with pytest.raises(KeyWithheld):
        provider_of(f"{OLD}={'ab' * 32}").unwrap(NEW, bytes(40))


@pytest.mark.parametrize(
    "text", [f"{OLD}=abc", f"{OLD}={'AB' * 32}", f"{OLD}", "ab" * 32, f"dk_1={'ab' * 32}"]
)
def test_another_form_is_refused_without_showing_the_key(text):
    with pytest.raises(KeyDamaged) as caught:
        provider_of(text).current()
    assert "abab" not in str(caught.value).lower()


def test_copies_hold_no_key_and_the_process_cannot_destroy_one():
    provider = provider_of(f"{OLD}={'ab' * 32}")
    assert provider.arrangement() == "covered"
    assert not isinstance(provider, EpochKeyProvider)
