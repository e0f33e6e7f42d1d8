"""Each database role at its work, through the same commands and calls as everybody: what it may do goes, the rest does not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import counterfoil
from counterfoil.effects import by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import CounterfoilError, KeyStoreMissing, NotPermitted, RunWaiting, StoreReadOnly
from tests.servers.fixtures import schema_for

pytestmark = pytest.mark.postgres

PROGRAM = (sys.executable, "-W", "error", "-c", "from counterfoil.cli import main; main()")


class Shop:
    """A ledger on a server that its owner has made, with roles, and a login for each role."""

    def __init__(self, cluster, directory):
        self._cluster = cluster
        self.schema = schema_for(directory)
        self._kek = str(directory / "kek")

    def place(self, user="postgres"):
        return self._cluster.url(user=user, schema=self.schema, kek=self._kek)

    def run(self, *words, user="postgres"):
        return subprocess.run(
            [*PROGRAM, *words, "--ledger", self.place(user)], capture_output=True, text=True, timeout=60
        )

    def login(self, role):
        user = f"{self.schema}_{role}_person"
        self._cluster.sql(
            f'CREATE ROLE "{user}" LOGIN IN ROLE "{self.schema}_{role}"',
            f"SELECT {self.schema}.admit('{user}', 'default')",
        )
        return user

    def open(self, role, **options):
        return counterfoil.open(self.place(self.login(role)), create=False, **options)


@pytest.fixture
def shop(cluster, tmp_path):
    made = Shop(cluster, tmp_path)
    told = made.run("init", "--roles", "--json")
    assert told.returncode == 0, told.stderr
    made.told = json.loads(told.stdout)
    with own_tools():
        yield made


def pay_tool(sent):
    @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=by_review())
    def pay(order: str, *, idempotency_key: str = ""):
        sent.append(idempotency_key)
        raise TimeoutError("no answer came")

    return pay


def leave_doubt(shop):
    """A worker's run that waits for a person to say what became of a payment."""
    sent = []
    pay = pay_tool(sent)
    with (
        shop.open("worker") as ledger,
        pytest.raises(RunWaiting),
        ledger.run("agent", conversation="case", dedupe="m"),
    ):
        pay("o-1")
    assert len(sent) == 1


def test_init_prints_what_each_role_may_do(shop):
    assert [role["name"].removeprefix(f"{shop.schema}_") for role in shop.told["roles"]] == [
        "worker",
        "recovery",
        "operator",
        "auditor",
        "retention",
        "security",
    ]
    assert all(role["may"] for role in shop.told["roles"])
    shown = shop.run("init", "--roles")
    assert shown.returncode == 0
    for role in shop.told["roles"]:
        assert role["name"] in shown.stdout
        assert all(ability in shown.stdout for ability in role["may"])
    assert f"SELECT {shop.schema}.admit('some_login', 'default');" in shown.stdout


def test_no_command_prints_a_password(shop, cluster):
    place = cluster.url(user="postgres:s3cret", schema=shop.schema)
    nowhere = cluster.url(user="postgres:s3cret", schema="nowhere")
    for words in (("ls", "effects"), ("review", "ls"), ("verify",), ("ls", "--ledger", nowhere)):
        ended = subprocess.run(
            [*PROGRAM, words[0], "--ledger", place, *words[1:]], capture_output=True, text=True
        )
        assert "s3cret" not in ended.stdout + ended.stderr


def test_roles_are_for_servers(tmp_path):
    ended = subprocess.run(
        [*PROGRAM, "init", str(tmp_path / "ledger"), "--roles"], capture_output=True, text=True
    )
    assert ended.returncode == 64
    assert "PostgreSQL" in ended.stderr
    assert not (tmp_path / "ledger").exists()


def test_a_worker_does_a_whole_run_and_an_operator_settles_what_it_left(shop):
    leave_doubt(shop)
    with shop.open("operator") as ledger:
        (review,) = ledger.reviews()
        ledger.settle(review["review_id"], "succeeded", by="A. Clerk", reason="in the book", result={"id": 1})
        assert [row["state"] for row in ledger.effects()] == ["settled"]
        with pytest.raises(NotPermitted), ledger.run("agent", conversation="case", dedupe="m"):
            pass


def test_an_auditor_sees_headers_verifies_them_and_reads_no_content(shop):
    leave_doubt(shop)
    user = shop.login("auditor")
    with counterfoil.open(shop.place(user), read_only=True, create=False) as ledger:
        stream = ledger.conversations()[0].stream_id
        event = next(ledger.events(stream))
        assert event.type == "conversation.opened"
        assert event.content_state == "withheld"
        with pytest.raises((KeyStoreMissing, StoreReadOnly)):
            ledger.run("agent", conversation=stream).__enter__()
    ended = shop.run("verify", user=user)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_recovery_ends_doubt_and_starts_no_conversation(shop):
    leave_doubt(shop)
    with shop.open("recovery") as ledger:
        ledger.recover()
        with pytest.raises(NotPermitted), ledger.run("agent", conversation="another", dedupe="n"):
            pass
        assert len(ledger.conversations()) == 1


def test_another_tenants_worker_finds_an_empty_ledger_and_fills_its_own(shop, cluster):
    leave_doubt(shop)
    user = f"{shop.schema}_north"
    cluster.sql(
        f'CREATE ROLE "{user}" LOGIN IN ROLE "{shop.schema}_worker"',
        f"SELECT {shop.schema}.admit('{user}', 'north')",
    )
    place = shop.place(user).replace("/kek", "/kek-north")
    with counterfoil.open(place, tenant="north", create=False) as ledger:
        assert ledger.conversations() == []
        assert ledger.effects() == []
        with ledger.run("agent", conversation="case", message="ours", dedupe="m") as run:
            run.finish("done")
        assert len(ledger.conversations()) == 1
    with pytest.raises(CounterfoilError):
        counterfoil.open(place, tenant="default", create=False)
    with counterfoil.open(shop.place()) as ledger:
        assert [found.runs for found in ledger.conversations()] == [1]
