"""The key of a person whom two need at once, on PostgreSQL."""

from __future__ import annotations

import threading

from counterfoil.abc.keys import KeyRow, SubjectRow
from counterfoil.adapters.postgres import keystore as keystore_module
from tests.unit.adapters.postgres.test_roles import make

KEK = "kek_01J9ZC3Y3V7W2R5T8QK4M6N0PK"
DEADLINE_S = 30.0


def test_of_two_who_link_a_person_at_once_both_see_the_same_first(ledger, store, monkeypatch):
    make(ledger)
    stores = {"slow": ledger.key_store(), "quick": ledger.key_store()}
    stores["slow"].replace("default", KEK, [], [])
    real, linked, go, first = keystore_module.run, threading.Event(), threading.Event(), {}

    def slow_to_commit(connection, statement, *rest):
        if statement == "COMMIT" and threading.current_thread().name == "slow":
            linked.set()
            assert go.wait(DEADLINE_S)
        return real(connection, statement, *rest)

    def need(name):
        key = KeyRow(f"dk_{name}", "str_a", KEK, b"wrapped", b"check")
        stores[name].put([key], [SubjectRow(key.key_id, KEK, b"ann", b"box")])
        first[name] = stores[name].find_subject(b"ann", "str_a").key_id

    monkeypatch.setattr(keystore_module, "run", slow_to_commit)
    threads = [threading.Thread(target=need, args=(name,), name=name) for name in stores]
    threads[0].start()
    assert linked.wait(DEADLINE_S)
    threads[1].start()
    threads[1].join(1.0)  # it waits for the slow one; whoever does not is ready by then
    go.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert first == {"slow": "dk_slow", "quick": "dk_slow"}
