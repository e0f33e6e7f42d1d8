"""`counterfoil tools`: what the application declares, for people and for programs."""

from __future__ import annotations

import sys

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from tests.command import Shell

APP = '''
from decimal import Decimal

import counterfoil
from counterfoil.effects import Retry


@counterfoil.effect("payment.refund", version="2026-08-01", touches={"money"}, key=lambda order, **_: order,
                    doubt=counterfoil.by_key(), timeout_s=20, retry=Retry(attempts=8))
def refund(order: str, amount: Decimal, *, idempotency_key: str = ""):
    """Give the money back.

    And more that nobody needs in a list.
    """


@counterfoil.effect("crm.note", version="1", touches={"data"}, doubt=counterfoil.by_review(), identity={"order"})
async def note(order: str, text: str = "\\x1b[31mred"):
    pass


@counterfoil.effect("web.read", version="1", touches=set(), doubt=counterfoil.by_repeating())
def read(url: str, page: "NotHere" = 1):
    pass
'''


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "declared.py").write_text(APP)
    (tmp_path / "counterfoil.toml").write_text('app = "declared"')
    with own_tools():
        yield Shell(tmp_path)
    sys.modules.pop("declared", None)


def test_every_tool_is_listed_with_what_matters(shell):
    printed = shell("tools", width=160, ledger=False)
    assert printed.code == 0
    refund = next(line for line in printed.out.splitlines() if "payment.refund" in line)
    for part in ("2026-08-01", "money", "business key", "send again with the same key", "8"):
        assert part in refund
    note = next(line for line in printed.out.splitlines() if "crm.note" in line)
    assert "some arguments, in a run" in note
    assert "a person decides" in note
    assert "nothing" in next(line for line in printed.out.splitlines() if "web.read" in line)


def test_one_tool_is_shown_in_full(shell):
    printed = shell("tools", "payment.refund", ledger=False)
    for part in ("Give the money back.", "at most 20 s", "after NotDone: 8 attempts", '"format": "decimal"'):
        assert part in printed.out
    assert "And more" not in printed.out


def test_programs_get_the_schemas(shell):
    lines = {line["tool"]: line for line in shell("tools", "--json", ledger=False).lines}
    assert list(lines) == ["crm.note", "payment.refund", "web.read"]
    refund, note = lines["payment.refund"], lines["crm.note"]
    assert (refund["known_by"], refund["takes_key"], refund["retry"][0]["attempts"]) == ("key", True, 8)
    assert refund["retry"][0]["on"] == ["NotDone"]
    assert refund["arguments"]["required"] == ["amount", "order"]
    assert len(refund["schema"]) == 64
    assert (note["async"], note["identity"], lines["web.read"]["doubt"]) == (True, ["order"], "repeat")


def test_a_hint_that_cannot_be_read_is_said(shell):
    lines = {line["tool"]: line for line in shell("tools", "--json", ledger=False).lines}
    assert [lines[name]["unchecked"] for name in ("payment.refund", "web.read")] == [[], ["page"]]
    assert "page: the type hint cannot be read" in shell("tools", "web.read", ledger=False).out
    assert "cannot be read" not in shell("tools", "payment.refund", ledger=False).out


def test_a_tool_that_is_not_declared_is_not_found(shell):
    printed = shell("tools", "payment.fund", ledger=False)
    assert printed.code == 66
    assert "declared" in printed.err


def test_without_a_module_it_says_how_tools_are_found(tmp_path):
    with own_tools():
        printed = Shell(tmp_path)("tools", ledger=False)
    assert printed.code == 0
    assert "--app" in printed.out


def test_what_the_digests_stand_for_is_put_on_record_once(shell):
    with counterfoil.open(shell.place):
        pass
    first = shell("tools", "--record")
    assert first.code == 0
    assert "crm.note 1, payment.refund 2026-08-01, web.read 1" in first.err
    assert "nothing new" in shell("tools", "--record").err
