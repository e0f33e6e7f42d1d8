"""Access for an hour: given once, and taken back once, whether its time is over or somebody takes it back before.

    python examples/access_grant.py grant --crash    # access is given, then this process is gone
    python examples/access_grant.py grant            # the directory is asked, nothing is given twice
    python examples/access_grant.py sweep            # nothing has expired yet
    python examples/access_grant.py repair           # a person takes it back before its time
    python examples/access_grant.py sweep --later    # an hour later: what is taken back stays so, and is not taken twice

Without ``repair`` in between the last one takes it back itself. Who has access stands in ``directory.json``, the ledger
is ``ledger/``, both in this directory.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import counterfoil
from counterfoil import Absent, Found

DIRECTORY = Path("directory.json")
CRASH = "--crash" in sys.argv
HOUR_S = 3_600
NOW_S = int(time.time()) + (2 * HOUR_S if "--later" in sys.argv else 0)


# ---- the outside world: a directory of who may do what, and how often that changed ----------------------------------


def read() -> dict:
    """Who has access, by person and system, and what was ever done here."""
    return json.loads(DIRECTORY.read_text()) if DIRECTORY.exists() else {"access": [], "changes": []}


def change(what: str, who: str) -> dict:
    """Give access or take it back; the directory writes down each change."""
    directory = read()
    access = {*directory["access"], who} if what == "give" else {*directory["access"]} - {who}
    changes = [*directory["changes"], f"{what} {who}"]
    DIRECTORY.write_text(json.dumps({"access": sorted(access), "changes": changes}))
    if CRASH:
        os._exit(9)  # it is done, and nobody here will ever be told
    return {"change": len(changes)}


def has_access(person: str, system: str) -> Found | Absent:
    """How to ask what became of a grant."""
    return Found("succeeded", {"found": True}) if f"{person}@{system}" in read()["access"] else Absent()


def has_none(person: str, system: str) -> Found | Absent:
    """How to ask what became of a revocation."""
    return Absent() if f"{person}@{system}" in read()["access"] else Found("succeeded", {"found": True})


# ---- the tools ------------------------------------------------------------------------------------------------------


@counterfoil.effect(
    "access.revoke",
    version="1",
    touches={"access"},
    key=lambda person, system, until_s: f"revoke:{person}@{system}:{until_s}",
    doubt=counterfoil.by_lookup(has_none),
    timeout_s=1,
)
def revoke(person: str, system: str, until_s: int) -> dict:  # noqa: ARG001 - says which grant it is
    """Take back what was given until then."""
    return change("take", f"{person}@{system}")


@counterfoil.effect(
    "access.grant",
    version="1",
    touches={"access"},
    key=lambda person, system, until_s: f"grant:{person}@{system}:{until_s}",
    doubt=counterfoil.by_lookup(has_access),
    compensate=revoke,
    timeout_s=1,
)
def grant(person: str, system: str, until_s: int) -> dict:  # noqa: ARG001 - says which grant it is
    """Give a person access to a system until then."""
    return change("give", f"{person}@{system}")


# ---- the agents -----------------------------------------------------------------------------------------------------


def give(ledger: counterfoil.Ledger) -> str:
    """One request for access. When it ends is decided once, and read from the record when this runs again."""
    with ledger.run(
        "access-agent", conversation="REQ-9", message="Kim, on call", dedupe="REQ-9", wait_s=60
    ) as run:
        until_s = run.step("until", lambda: NOW_S + HOUR_S)
        grant("kim", "production", until_s)
        run.finish("granted for an hour")
    return run.output


def expired(ledger: counterfoil.Ledger) -> Iterator[dict]:
    """What the ledger says was given and whose time is over; it is the ledger that knows, not a list of our own."""
    for row in ledger.effects(state="succeeded"):
        if row["tool"] == "access.grant":
            (intended,) = ledger.events(row["stream_id"], after=row["first_sequence"] - 1, limit=1)
            if intended.content["arguments"]["until_s"] <= NOW_S:
                yield intended.content["arguments"]


def sweep(ledger: counterfoil.Ledger) -> str:
    """Take back what has expired: one run for each grant, so any number of sweeps go on with it and take it back once."""
    over = list(expired(ledger))
    for grant_ in over:
        name = "{person}@{system} until {until_s}".format(**grant_)
        with ledger.run("access-sweeper", conversation="sweeps", message=name, dedupe=name, wait_s=60):
            revoke(**grant_)
    return f"{len(over)} expired"


def repair(ledger: counterfoil.Ledger) -> str:
    """Take it back before its time, on record, with who wanted it and why."""
    (effect,) = (row for row in ledger.effects() if row["tool"] == "access.grant")
    report = ledger.repair(effect["effect_id"], by="Dana Ott", reason="not on call any more")
    return report.state


with counterfoil.open("./ledger") as ledger:
    said = {"grant": give, "sweep": sweep, "repair": repair}[sys.argv[1]](ledger)
print(f"{said}; access: {read()['access']}, changes: {read()['changes']}")
