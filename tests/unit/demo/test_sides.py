"""The comparison of the demo sees every way in which the two sides can differ."""

from __future__ import annotations

import pytest
from msgspec import structs

from counterfoil.demo.sides import Done, Sides

REFUND, MESSAGE = Done("refund:1", "re_1", "40.00"), Done("notice:1", "msg_1")
SAME = Sides((REFUND,), (REFUND,), (MESSAGE,), (MESSAGE,))

DIFFERENCES = {
    "paid twice": {"booked": (REFUND, Done("refund:1", "re_2", "40.00"))},
    "recorded twice": {"recorded": (REFUND, REFUND)},
    "both twice": {"booked": (REFUND, REFUND), "recorded": (REFUND, REFUND)},
    "not recorded": {"recorded": ()},
    "nothing anywhere": {"booked": (), "recorded": ()},
    "another amount": {"recorded": (Done("refund:1", "re_1", "41.00"),)},
    "another id": {"recorded": (Done("refund:1", "re_9", "40.00"),)},
    "another key": {"recorded": (Done("refund:2", "re_1", "40.00"),)},
    "told twice": {"messages_booked": (MESSAGE, MESSAGE)},
    "not told": {"messages_booked": (), "messages_recorded": ()},
}


def test_one_refund_and_one_message_on_both_sides_agree():
    assert SAME.agree


@pytest.mark.parametrize("case", DIFFERENCES)
def test_the_sides_differ_when(case: str):
    assert not structs.replace(SAME, **DIFFERENCES[case]).agree
