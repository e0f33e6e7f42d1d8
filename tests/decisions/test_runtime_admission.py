"""What becomes of an input: the whole table, given a situation, then a decision (DESIGN 6)."""

from __future__ import annotations

import pytest

from counterfoil.runtime.decide import (
    Absorb,
    Busy,
    Defer,
    Ended,
    Keep,
    Known,
    NotYet,
    OtherMessage,
    Reject,
    Replay,
    Resume,
    Situation,
    Start,
    Supersede,
    decide,
    decide_keeping,
)
from counterfoil.runtime.state import NEVER_MS, AdmissionState, RunState

LIVE = RunState("run_live", "running", "adm_live")
LEFT = RunState("run_left", "running", "adm_left")
LEFT_RESUMABLE = RunState("run_left", "running", "adm_left", resumable=True)
WAITING = RunState("run_waiting", "suspended", "adm_waiting", cause="review")
ON_TIMER = RunState("run_timer", "suspended", "adm_timer", cause="schedule")
MINE = RunState("run_mine", "running", "adm_mine")
MINE_WAITING = RunState("run_mine", "suspended", "adm_mine", cause="effect")
MINE_DONE = RunState("run_mine", "finished", "adm_mine", terminal="success")


NOW_MS = 1_000


def admission(state, cause=None, due_ms=0):
    return AdmissionState("adm_mine", state, cause=cause, due_ms=due_ms)


FOR_A_PERSON = admission("deferred", "operator", NEVER_MS)
FOR_LATER = admission("deferred", "until", NOW_MS + 1)
FOR_NOW = admission("deferred", "until", NOW_MS)


NEW_INPUT = [
    # nobody holds the slot
    ({}, Start()),
    ({"running": LEFT}, Start(park=LEFT)),
    ({"running": LEFT, "lapsed": True}, Start(park=LEFT)),
    ({"suspended": [WAITING]}, Start()),
    # a run is under way
    ({"held": True, "running": LIVE}, Defer("live_run", LIVE)),
    ({"held": True, "running": LIVE, "while_running": "queue"}, Defer("live_run", LIVE)),
    ({"held": True, "running": LIVE, "while_running": "absorb"}, Absorb(LIVE)),
    ({"held": True, "running": LIVE, "while_running": "supersede"}, Supersede(LIVE)),
    ({"held": True, "running": LIVE, "while_running": "reject"}, Reject(LIVE, "a run is under way")),
    # a lease without a run: recovery is at work, or a run just ended
    ({"held": True}, Busy(None)),
    ({"held": True, "while_running": "reject"}, Busy(None)),
    ({"held": True, "while_running": "supersede"}, Busy(None)),
    # a run waits
    ({"suspended": [WAITING], "while_suspended": "start"}, Start()),
    ({"suspended": [WAITING], "while_suspended": "queue"}, Defer("approval", WAITING)),
    ({"suspended": [ON_TIMER], "while_suspended": "queue"}, Defer("live_run", ON_TIMER)),
    ({"suspended": [WAITING], "while_suspended": "reject"}, Reject(WAITING, "a run waits")),
    # a run left by its worker waits too, if its input can come again
    ({"running": LEFT_RESUMABLE, "while_suspended": "queue"}, Defer("live_run", LEFT_RESUMABLE)),
    ({"running": LEFT_RESUMABLE, "while_suspended": "reject"}, Reject(LEFT_RESUMABLE, "a run waits")),
    ({"running": LEFT_RESUMABLE}, Start(park=LEFT_RESUMABLE)),
    ({"running": LEFT, "while_suspended": "queue"}, Start(park=LEFT)),
    # the policy for suspended runs says nothing while another one is under way
    (
        {"held": True, "running": LIVE, "suspended": [WAITING], "while_suspended": "reject"},
        Defer("live_run", LIVE),
    ),
    ({"closed": True}, Reject(None, "the conversation is closed")),
]

KNOWN_INPUT = [
    # its run has ended: nothing else matters
    ({"admission": admission("started"), "own": MINE_DONE}, Replay(MINE_DONE)),
    ({"admission": admission("started"), "own": MINE_DONE, "held": True, "running": LIVE}, Replay(MINE_DONE)),
    ({"admission": admission("started"), "own": MINE_DONE, "closed": True}, Replay(MINE_DONE)),
    ({"admission": admission("superseded"), "own": MINE_DONE}, Replay(MINE_DONE)),
    # its run is open
    ({"admission": admission("started"), "own": MINE, "running": MINE}, Resume(MINE, "resume")),
    (
        {"admission": admission("started"), "own": MINE, "running": MINE, "lapsed": True},
        Resume(MINE, "takeover"),
    ),
    ({"admission": admission("started"), "own": MINE, "running": MINE, "held": True}, Busy(MINE)),
    ({"admission": admission("started"), "own": MINE_WAITING}, Resume(MINE_WAITING, "resume")),
    (
        {"admission": admission("started"), "own": MINE_WAITING, "lapsed": True},
        Resume(MINE_WAITING, "resume"),
    ),
    ({"admission": admission("started"), "own": MINE_WAITING, "running": LIVE, "held": True}, Busy(LIVE)),
    (
        {"admission": admission("started"), "own": MINE_WAITING, "running": LEFT},
        Resume(MINE_WAITING, "resume", LEFT),
    ),
    # it waits in line
    ({"admission": admission("deferred")}, Start()),
    ({"admission": admission("released")}, Start()),
    ({"admission": admission("accepted")}, Start()),
    ({"admission": admission("deferred"), "held": True, "running": LIVE}, Busy(LIVE)),
    (
        {"admission": admission("released"), "held": True, "running": LIVE, "while_running": "supersede"},
        Busy(LIVE),
    ),
    ({"admission": admission("deferred"), "suspended": [WAITING], "while_suspended": "queue"}, Busy(WAITING)),
    (
        {"admission": admission("deferred"), "suspended": [WAITING], "while_suspended": "reject"},
        Busy(WAITING),
    ),
    ({"admission": admission("released"), "suspended": [WAITING], "while_suspended": "queue"}, Start()),
    # it waits for a person, or for a time
    ({"admission": FOR_A_PERSON}, NotYet(FOR_A_PERSON)),
    ({"admission": FOR_LATER}, NotYet(FOR_LATER)),
    ({"admission": FOR_LATER, "held": True, "running": LIVE}, NotYet(FOR_LATER)),
    ({"admission": FOR_NOW}, Start()),
    ({"admission": FOR_NOW, "held": True, "running": LIVE}, Busy(LIVE)),
    ({"admission": admission("deferred", "live_run", NEVER_MS)}, Start()),
    ({"admission": admission("released", "operator")}, Start()),
    # it ended without a run of its own
    ({"admission": admission("absorbed")}, Ended(admission("absorbed"))),
    ({"admission": admission("absorbed"), "own": LIVE, "running": LIVE}, Ended(admission("absorbed"))),
    ({"admission": admission("superseded")}, Ended(admission("superseded"))),
    ({"admission": admission("rejected")}, Ended(admission("rejected"))),
    # another message came under its key
    (
        {"admission": admission("started"), "own": MINE_DONE, "same_message": False},
        OtherMessage(admission("started")),
    ),
    ({"admission": admission("deferred"), "same_message": False}, OtherMessage(admission("deferred"))),
]


@pytest.mark.parametrize("given, then", NEW_INPUT)
def test_a_new_input_meets_the_policies(given, then):
    assert decide(Situation(**given)) == then


KEPT = [
    # nobody runs it here: it is kept for a worker, or until its time
    ({}, None, Keep()),
    ({"running": LEFT}, None, Keep()),
    ({"held": True}, None, Keep()),
    ({"suspended": [WAITING]}, None, Keep()),
    ({}, NOW_MS + 1, Keep(NOW_MS + 1)),
    ({}, NOW_MS, Keep()),
    ({"held": True, "running": LIVE, "while_running": "reject"}, NOW_MS + 1, Keep(NOW_MS + 1)),
    # the policies count, and nobody is superseded
    ({"held": True, "running": LIVE}, None, Defer("live_run", LIVE)),
    ({"held": True, "running": LIVE, "while_running": "absorb"}, None, Absorb(LIVE)),
    ({"held": True, "running": LIVE, "while_running": "supersede"}, None, Defer("live_run", LIVE)),
    ({"held": True, "running": LIVE, "while_running": "reject"}, None, Reject(LIVE, "a run is under way")),
    ({"suspended": [WAITING], "while_suspended": "queue"}, None, Defer("approval", WAITING)),
    ({"suspended": [WAITING], "while_suspended": "reject"}, None, Reject(WAITING, "a run waits")),
    ({"closed": True}, None, Reject(None, "the conversation is closed")),
    ({"closed": True}, NOW_MS + 1, Reject(None, "the conversation is closed")),
    # it came before
    ({"admission": FOR_LATER}, NOW_MS + 9, Known(FOR_LATER)),
    ({"admission": admission("started"), "own": MINE_DONE}, None, Known(admission("started"))),
    (
        {"admission": admission("started"), "same_message": False},
        None,
        OtherMessage(admission("started")),
    ),
]


@pytest.mark.parametrize("given, until_ms, then", KEPT)
def test_an_input_that_nobody_runs_is_kept_as_the_policies_say(given, until_ms, then):
    assert decide_keeping(Situation(**given, now_ms=NOW_MS), until_ms) == then


@pytest.mark.parametrize("given, then", KNOWN_INPUT)
def test_an_input_that_was_admitted_keeps_its_run(given, then):
    assert decide(Situation(**given, now_ms=NOW_MS)) == then


def test_every_combination_has_a_decision():
    for admitted in (
        None,
        *map(admission, ("accepted", "deferred", "released", "started", "absorbed", "superseded")),
    ):
        for own in (None, MINE, MINE_WAITING, MINE_DONE) if admitted else (None,):
            for running in (None, LIVE, LEFT_RESUMABLE):
                for held in (False, True):
                    for while_running in ("queue", "absorb", "supersede", "reject"):
                        for while_suspended in ("start", "queue", "reject"):
                            decide(
                                Situation(
                                    while_running=while_running,
                                    while_suspended=while_suspended,
                                    admission=admitted,
                                    own=own,
                                    held=held,
                                    running=running,
                                    suspended=[WAITING],
                                )
                            )
