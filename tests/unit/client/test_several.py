"""A text where a ledger takes several names: refused, and not taken as its letters."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.errors import InvalidForm, ToolInvalid
from counterfoil.evidence.verify import verify


@pytest.fixture
def ledger():
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("agent", conversation="c", message="hello"):
            pass
        yield ledger


ASKED = {
    "types": lambda ledger: ledger.events("c", types="run.started"),
    "only": lambda ledger: ledger.recover(only="payment.pay"),
    "streams": lambda ledger: verify(ledger.store, ledger.keyring, streams=ledger.stream_of("c")),
}


@pytest.mark.parametrize("argument", ASKED)
def test_one_text_in_place_of_several_is_refused(ledger, argument):
    with pytest.raises(InvalidForm) as refused:
        ASKED[argument](ledger)
    assert refused.value.fields["argument"] == argument


@pytest.mark.parametrize("touches", ["money", b"money", 5, [["money"]], {"cash"}])
def test_a_tool_that_touches_no_labels_is_refused_with_a_typed_error(touches):
    with pytest.raises(ToolInvalid, match="touches is a set of"):
        counterfoil.effect("t", version="1", touches=touches, doubt=counterfoil.by_review())(lambda: None)
