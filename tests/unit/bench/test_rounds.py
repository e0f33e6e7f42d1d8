"""Contenders take turns, each beginning as often as the others, and are compared by medians."""

from __future__ import annotations

import gc

import pytest

from counterfoil.bench.rounds import Contender, Scale, Taken, settled, side_by_side


class Stopwatch:
    """A clock that moves only when a contender says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[str] = []

    def __call__(self) -> float:
        return self.now

    def contender(self, name: str, *seconds_an_item: float) -> Contender:
        left = list(seconds_an_item)

        def work(items: int) -> None:
            self.turns.append(name)
            self.now += (left.pop(0) if len(left) > 1 else left[0]) * items

        return Contender(work)


@pytest.fixture
def watch() -> Stopwatch:
    return Stopwatch()


def test_each_warms_up_once_and_every_round_begins_with_another(watch: Stopwatch):
    contenders = {"a": watch.contender("a", 1.0), "b": watch.contender("b", 1.0)}
    side_by_side(contenders, rounds=2, items=1, clock=watch)
    assert "".join(watch.turns) == "ab" + "ab" + "ba"


def test_the_warm_up_is_not_counted(watch: Stopwatch):
    taken = side_by_side({"a": watch.contender("a", 99.0, 1.0)}, rounds=3, items=1, clock=watch)
    assert taken.seconds["a"] == [1.0, 1.0, 1.0]


def test_one_slow_round_does_not_move_the_median(watch: Stopwatch):
    taken = side_by_side({"a": watch.contender("a", 1, 1, 500, 1)}, rounds=3, items=4, clock=watch)
    assert taken.median("a") == 1


def test_what_is_made_ready_is_not_timed(watch: Stopwatch):
    def ready(items: int) -> None:
        watch.now += 1000 * items

    contender = Contender(watch.contender("a", 1.0).work, ready)
    assert side_by_side({"a": contender}, rounds=3, items=2, clock=watch).median("a") == 1.0


def test_speed_is_told_in_terms_of_another():
    taken = Taken({"ours": [4.0], "raw": [2.0]})
    assert (taken.speed("ours", "raw"), taken.rate("ours")) == (0.5, 0.25)


def test_the_collector_rests_during_a_turn_and_works_afterwards(watch: Stopwatch):
    seen = []
    side_by_side({"a": Contender(lambda _: seen.append(gc.isenabled()))}, rounds=3, items=1, clock=watch)
    assert set(seen) == {False}
    assert gc.isenabled()


def test_a_contender_that_fails_leaves_the_collector_on(watch: Stopwatch):
    def fail(_: int) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        side_by_side({"a": Contender(fail)}, rounds=3, items=1, clock=watch)
    assert gc.isenabled()


@pytest.mark.parametrize(
    "share, rounds, items",
    [(1.0, 15, 200), (0.25, 4, 50), (0.001, 3, 1)],
    ids=["all", "quick", "least"],
)
def test_a_share_never_goes_below_what_a_median_needs(share: float, rounds: int, items: int):
    scale = Scale(share)
    assert (scale.rounds(15), scale.items(200)) == (rounds, items)


def test_a_settled_turn_begins_when_everything_is_on_the_disk(
    watch: Stopwatch, monkeypatch: pytest.MonkeyPatch
):
    order = []
    monkeypatch.setattr("counterfoil.bench.rounds.os.sync", lambda: order.append("sync"))
    contender = Contender(lambda _: order.append("work"), lambda _: order.append("ready"))
    side_by_side({"a": settled(contender)}, rounds=3, items=1, clock=watch)
    assert order == ["ready", "sync", "work"] * 4
