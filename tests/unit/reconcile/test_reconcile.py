"""Ledger against book: what is here and not there, there and not here, differs, or ends doubt when asked to (DESIGN 7)."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import BookInvalid, FileMissing, InvalidForm, NotDone, Rejected, RunWaiting
from counterfoil.reconcile.book import BookForm, Columns
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth

KEY = Columns(key="key", amount="amount")
BY_ID = Columns(provider_id="id", amount="amount")


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


@pytest.fixture
def ledger(world):
    return world.open()


class Refunds:
    """A refund tool whose next call does what it is told to, and runs that call it."""

    def __init__(self, ledger, **more):
        self.ledger = ledger
        self.next = None
        settings = {"version": "1", "touches": {"money"}, "doubt": counterfoil.by_review()} | more
        settings.setdefault("key", lambda order, **_: f"refund:{order}")
        declare = counterfoil.effect("pay.refund", provider_id=lambda result: result["id"], **settings)
        self.tool = declare(self._send())

    def _send(self):
        def refund(order: str, amount: Decimal) -> dict:
            if self.next is not None:
                raise self.next
            return {"id": f"re_{order}"}

        return refund

    def __call__(self, order, amount="40.00", error=None):
        self.next = error
        try:
            with self.ledger.run("agent", conversation=order, dedupe=order):
                self.tool(order, Decimal(amount))
        except (RunWaiting, Rejected, NotDone, SystemExit) as ended:
            return ended
        return None

    def effect(self, order):
        (row,) = self.ledger.effects(stream=order)
        return row


@pytest.fixture
def refund(ledger):
    return Refunds(ledger)


def book(*lines, head="key,amount"):
    return io.BytesIO("\n".join((head, *lines, "")).encode())


def kinds(report):
    return dict(report.counts)


def reconcile(ledger, *lines, columns=KEY, head="key,amount", **more):
    return ledger.reconcile("pay.refund", book(*lines, head=head), columns, **more)


def test_what_both_say_is_matched_and_amounts_are_compared_as_numbers(ledger, refund):
    refund("a")
    report = reconcile(ledger, "refund:a,40")
    assert (kinds(report), report.findings, report.differs, report.undecided) == (
        {"matched": 1},
        [],
        False,
        0,
    )


def test_here_and_not_there_and_there_and_not_here(ledger, refund):
    refund("a")
    report = reconcile(ledger, "refund:b,40.00")
    assert kinds(report) == {"only_in_ledger": 1, "only_in_book": 1}
    here, there = report.findings
    assert here.effect_id == refund.effect("a")["effect_id"]
    assert (there.lines, there.key, there.booked) == ((2,), "refund:b", Decimal("40.00"))


def test_amounts_that_differ_are_told_with_both(ledger, refund):
    refund("a")
    (finding,) = reconcile(ledger, "refund:a,400.00").findings
    assert (finding.kind, finding.recorded, finding.booked) == (
        "amount_differs",
        Decimal("40.00"),
        Decimal("400.00"),
    )


def test_an_amount_that_the_ledger_does_not_have_differs(ledger, refund):
    refund("a")
    (finding,) = reconcile(ledger, "refund:a,40", amount_argument="price").findings
    assert (finding.kind, finding.recorded) == ("amount_differs", None)


def test_one_effect_on_two_lines_was_booked_twice(ledger, refund):
    refund("a")
    (finding,) = reconcile(ledger, "refund:a,40", "refund:a,40").findings
    assert (finding.kind, finding.lines) == ("booked_twice", (2, 3))


@pytest.mark.parametrize("error", [Rejected("no"), NotDone("later")], ids=["rejected", "failed"])
def test_what_was_not_done_here_and_stands_there_differs(ledger, refund, error):
    refund("a", error=error)
    assert kinds(reconcile(ledger, "refund:a,40")) == {"booked_all_the_same": 1}
    assert kinds(reconcile(ledger)) == {"not_done": 1}


def test_a_key_that_was_taken_over_is_the_effects_that_has_it_now(ledger, refund):
    refund("a", error=NotDone("later"))
    with ledger.run("agent", conversation="again", dedupe="again"):
        refund.next = None
        refund.tool("a", Decimal("40.00"))
    assert kinds(reconcile(ledger, "refund:a,40")) == {"not_done": 1, "matched": 1}


def test_effects_without_a_business_key_are_found_by_their_own_id(ledger):
    refund = Refunds(ledger, key=None)
    refund("a")
    assert kinds(reconcile(ledger, f"{refund.effect('a')['effect_id']},40")) == {"matched": 1}


def test_effects_are_found_by_the_providers_id(ledger, refund):
    refund("a")
    refund("b")
    report = reconcile(ledger, "re_a,40", "re_x,1", columns=BY_ID, head="id,amount")
    assert kinds(report) == {"matched": 1, "only_in_ledger": 1, "only_in_book": 1}


def test_other_tools_tenants_and_periods_are_left_out(world, ledger, refund):
    refund("a")
    other = counterfoil.effect(
        "pay.other", version="1", touches={"money"}, key=lambda: "other", doubt=counterfoil.by_review()
    )(lambda: None)
    with ledger.run("agent", conversation="o", dedupe="o"):
        other()
    assert kinds(reconcile(ledger, "refund:a,40", "other,1")) == {"matched": 1, "elsewhere": 1}
    later = world.clock.now_ms() + 1
    assert kinds(reconcile(ledger, "refund:a,40", since_ms=later)) == {"elsewhere": 1}
    assert kinds(reconcile(ledger, until_ms=later)) == {"only_in_ledger": 1}


def test_a_call_that_may_be_under_way_is_told_apart(ledger, refund):
    seen = []
    columns = Columns(key="key")

    def during(order, amount):
        seen.append(kinds(ledger.reconcile("pay.slow", book(head="key"), columns)))

    slow = counterfoil.effect("pay.slow", version="1", touches={"money"}, doubt=counterfoil.by_review())(
        during
    )
    with ledger.run("agent", conversation="c", dedupe="c"):
        slow("a", 1)
    assert seen == [{"under_way": 1}]


# ---- doubt -----------------------------------------------------------------------------------------------------------


def doubted(world, refund, order="a"):
    """An effect that nobody was asked about yet: its worker is gone."""
    refund(order, error=SystemExit())
    world.time_passes()


def test_doubt_is_named_and_nothing_is_recorded_unless_asked(world, ledger, refund):
    refund("a", error=ConnectionError("sent?"))
    doubted(world, refund, "b")
    heads = [ledger.store.head(ledger.stream_of(order)) for order in ("a", "b")]
    report = reconcile(ledger, "refund:a,40", "refund:b,40")
    assert (kinds(report), report.undecided, report.settled) == ({"settles": 2}, 2, [])
    assert [ledger.store.head(ledger.stream_of(order)) for order in ("a", "b")] == heads
    assert kinds(reconcile(ledger)) == {"in_doubt": 2}


def test_asked_to_settle_a_review_is_settled_and_other_doubt_ended_in_the_name_of_a_person(
    world, ledger, refund
):
    refund("a", error=ConnectionError("sent?"))
    doubted(world, refund, "b")
    report = reconcile(ledger, "refund:a,40", "refund:b,40", settle=True, by="Ines")
    assert (report.undecided, len(report.settled)) == (0, 2)
    assert [refund.effect(order)["state"] for order in ("a", "b")] == ["settled", "succeeded"]
    assert ledger.reviews() == []
    (settled,) = ledger.events("a", types={"effect.settled"})
    (observed,) = ledger.events("b", types={"effect.late_observed"})
    assert observed.data["source"] == "import"
    for event, line in ((settled, 2), (observed, 3)):
        assert event.header.actor["type"] == "human"
        assert event.content["by"] == {"name": "Ines"}
        assert event.content["evidence"] == {"line": line, "amount": "40", "book_sha256": report.sha256}
    assert kinds(reconcile(ledger, "refund:a,40", "refund:b,40")) == {"matched": 2}
    check_truth(ledger)


def test_a_run_that_waited_goes_on_and_sends_nothing(world, ledger, refund):
    refund("a", error=ConnectionError("sent?"))
    reconcile(ledger, "refund:a,40", settle=True, by="Ines")
    assert refund("a", error=AssertionError("it was sent again")) is None
    assert ledger.runs("a")[0]["terminal"] == "success"


def test_what_differs_or_is_absent_settles_nothing(world, ledger, refund):
    for order in ("a", "b", "c"):
        refund(order, error=ConnectionError("sent?"))
    report = reconcile(ledger, "refund:a,41", "refund:b,40", "refund:b,40", settle=True, by="Ines")
    assert kinds(report) == {"amount_differs": 1, "booked_twice": 1, "in_doubt": 1}
    assert report.settled == []
    assert {refund.effect(order)["state"] for order in ("a", "b", "c")} == {"in_review"}


def test_settling_again_changes_nothing(world, ledger, refund):
    doubted(world, refund)
    for expected in (1, 0):
        assert len(reconcile(ledger, "refund:a,40", settle=True, by="Ines").settled) == expected
    assert len(list(ledger.events("a", types={"effect.late_observed"}))) == 1


def test_the_providers_id_is_recorded_with_what_it_proves(world, ledger, refund):
    doubted(world, refund)
    columns = Columns(key="key", provider_id="id")
    reconcile(ledger, "refund:a,re_9", columns=columns, head="key,id", settle=True, by="Ines")
    (observed,) = ledger.events("a", types={"effect.late_observed"})
    assert observed.content["provider_effect_id"] == "re_9"
    assert kinds(reconcile(ledger, "re_9,40", columns=BY_ID, head="id,amount")) == {"matched": 1}


def test_a_book_with_a_fault_behind_settles_nothing_before_it(world, ledger, refund):
    doubted(world, refund)
    with pytest.raises(BookInvalid) as fault:
        reconcile(ledger, "refund:a,40", "refund:b,forty", settle=True, by="Ines")
    assert fault.value.line == 3
    assert refund.effect("a")["state"] in ("intended", "unknown")


def test_settling_takes_a_person_and_a_book_that_is_there(ledger):
    with pytest.raises(InvalidForm):
        reconcile(ledger, settle=True)
    with pytest.raises(InvalidForm):
        ledger.reconcile("no label at all", book(), KEY)
    with pytest.raises(FileMissing):
        ledger.reconcile("pay.refund", "nowhere.csv", KEY)


def test_erased_content_still_matches_by_key_and_ends_no_doubt(ledger, refund, monkeypatch):
    refund("a")
    refund("b", error=ConnectionError("sent?"))
    monkeypatch.setattr("counterfoil.flow.event.Event.content_or_none", lambda self: None)
    assert kinds(reconcile(ledger, "refund:a,40", "refund:b,40")) == {"matched": 1, "amount_differs": 1}


def test_a_long_book_is_held_on_disk_and_every_line_is_counted(ledger, refund):
    refund("a")
    lines = [f"refund:other-{number},1" for number in range(3_000)]
    report = reconcile(ledger, *lines, "refund:a,40", form=BookForm())
    assert kinds(report) == {"matched": 1, "only_in_book": 3_000}
    assert report.entries == 3_001
