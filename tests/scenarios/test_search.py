"""Search on every engine: text is no query language, recall equals a scan, and what is erased is in no file."""

from __future__ import annotations

import sqlite3
import unicodedata
from contextlib import closing

import pytest

import counterfoil
from counterfoil.abc import AccessDecision
from counterfoil.core.event import Draft, Part
from counterfoil.core.forms import time_text
from counterfoil.errors import (
    AccessRefused,
    InputError,
    InvalidForm,
    NotPermitted,
    SearchQueryInvalid,
    SearchUnavailable,
    SearchUnusable,
    StreamNotFound,
)
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.search import follow, schema
from tests.running import World

SAID = (
    'Order O-1042, refund:O-1042:1, request CFF90D7C-A2EC-4B11-9E1F-0C7A55D2E9AB, said C++ NEAR( AND it\'s "odd"',
    "Ann wrote from a.b@c.example, and Ben from ben+shop@mail.example: café, naïve, Straße, İstanbul",
    "Ann wrote again: cafe\u0301 in pieces, Å and A\u030a, ﬁne print, % _ * ? [x] \\ ' ; -- DROP",
    "返金をお願いします。日本語の注文です。東京都港区、カタカナとひらがな、㍿ ﾊﾝｶｸ",
    "退款申请 订单号 8472、请尽快处理。繁體中文訂單",
    "ขอคืนเงินสำหรับคำสั่งซื้อ น้ำตาล กรุงเทพฯ",
    "환불을 요청합니다. 주문 번호 1042, 서울",
    "Возврат денег за заказ №1042, ёлка и ЁЛКА, Москва",
    "Επιστροφή χρημάτων, Ὀδυσσεύς, ΟΔΥΣΣΕΥΣ, τέλος",
    "طلب استرداد للطلب رقم ١٠٤٢، مُحَمَّد",
    "החזר כספי עבור הזמנה, שָׁלוֹם",
    "आदेश की वापसी, हिन्दी में, नमस्ते",
    "emoji 😀 👩\u200d👩\u200d👧 🇩🇪 ❤\ufe0f and tabs\tand\nlines",
    "nul \x00 in text, half \ud83d of a pair, last \U0010fffd",
)
QUERIES = (
    *(
        "O-1042",
        "refund:O-1042",
        "CFF90D7C-A2EC",
        "cff90d7c",
        "a.b@c.example",
        "+shop@",
        "C++",
        "NEAR(",
        "AND",
        '"',
    ),
    *(
        '"odd"',
        "it's",
        "café",
        "cafe\u0301",
        "CAFÉ",
        "cafe",
        "strasse",
        "STRASSE",
        "İ",
        "å",
        "ﬁne",
        "fine",
        "%",
        "_",
    ),
    *(
        "*",
        "[x]",
        "\\",
        "' ; --",
        "返金",
        "返",
        "日本",
        "語の注",
        "カタ",
        "退款",
        "订单号",
        "訂單",
        "คืน",
        "เงิน",
        "น้ำ",
    ),
    *(
        "환불",
        "서울",
        "울",
        "возврат",
        "ЁЛКА",
        "ё",
        "№1",
        "οδυσσεύς",
        "Ὀδυσ",
        "τέλοσ",
        "استرداد",
        "رقم",
        "محمد",
        "מ",
        "החזר",
    ),
    *(
        "वापसी",
        "नमस्ते",
        "न",
        "😀",
        "👩",
        "👩\u200d👩",
        "🇩🇪",
        "❤",
        "\t",
        "\n",
        "\x00",
        "\ud83d",
        "1042",
        "8472",
        " ",
        "zz",
        "x" * 10_000,
    ),
)


def folded(text):
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def scanned(ledger, conversation, query):
    """The sequences whose content holds the query, the newest first: every text looked at."""
    wanted = folded(query)
    found = [
        event.sequence
        for event in ledger.events(conversation)
        if any(wanted in folded(text) for text in texts(dict(event.content)))
    ]
    return sorted(found, reverse=True)


def talk(ledger, conversation="case", said=SAID):
    with ledger.run("agent", conversation=conversation, message=said[0]) as run:
        for number, text in enumerate(said[1:]):
            run.step(f"hear-{number}", lambda text=text: text)


@pytest.fixture
def ledger():
    with counterfoil.open(":memory:") as opened:
        yield opened


@pytest.fixture
def engine(anywhere):
    with counterfoil.open(":memory:" if anywhere is None else anywhere) as opened:
        yield opened


def test_every_query_in_every_script_finds_what_a_scan_finds(engine):
    talk(engine)
    assert len(QUERIES) >= 40
    for query in QUERIES:
        answer = engine.search(query, "case", limit=100)
        assert [hit.sequence for hit in answer.hits] == scanned(engine, "case", query), ascii(query)[:80]
        assert answer.approximate == ()
        assert answer.lag.caught_up


@pytest.mark.parametrize(
    "query", ["CFF90D7C-A2EC", "a.b@c.example", '"', "C++", "NEAR(", "AND", "返金", "x" * 10_000]
)
def test_a_text_is_no_query_language(ledger, query):
    talk(ledger)
    hits = ledger.search(query, "case").hits
    assert bool(hits) is (len(query) < 10_000)
    for hit in hits:
        start, end = hit.snippet.marks[0]
        assert folded(hit.snippet.text[start:end]) == folded(query)


def test_what_is_found_names_conversation_place_type_and_who(ledger):
    talk(ledger)
    (hit,) = ledger.search("NEAR(", "case").hits
    assert (hit.conversation, hit.sequence, hit.event_type) == ("case", 2, "admission.accepted")
    assert (hit.actor_type, hit.actor_id[:3]) == ("user", "dk_")
    assert hit.stream_id == ledger.stream_of("case")


def test_pages_go_on_where_the_last_one_ended(engine):
    talk(engine, said=["begin", *[f"word {number} common" for number in range(25)]])
    found, after = [], None
    while True:
        answer = engine.search("common", "case", limit=10, after=after)
        found += [hit.sequence for hit in answer.hits]
        after = answer.after
        if after is None:
            break
    assert found == scanned(engine, "case", "common")
    assert len(found) == 25


def test_another_conversation_is_not_searched(engine):
    talk(engine, "case")
    talk(engine, "other", ["the secret of somebody else 返金"])
    assert engine.search("secret of somebody", "case").hits == ()
    assert len(engine.search("返", "other").hits) == 1
    assert len(engine.search("返", "case").hits) == 1


def test_across_conversations_nothing_is_said_without_permission(ledger):
    talk(ledger)
    with pytest.raises(NotPermitted):
        ledger.search("refund", across=True)
    with pytest.raises(InputError):
        ledger.search("refund")
    with pytest.raises(InputError):
        ledger.search("refund", "case", across=True)


class Permits:
    """An authorizer that allows a search of everything to one person."""

    def decide(self, request):
        return AccessDecision(request.action == "search" and request.actor.name == "ann", "test-rule")


def test_across_conversations_the_decision_is_recorded_before_anything_is_shown(ledger):
    ledger.authorizer = Permits()
    talk(ledger, "one", ["walrus of one"])
    talk(ledger, "two", ["walrus of two"])
    answer = ledger.search("walrus", across=True, actor="ann", purpose="complaint 12")
    assert [hit.conversation for hit in answer.hits] == ["two", "one"]
    (line,) = ledger.access.decisions()
    assert (line.action, line.allowed, line.stream_id, line.by) == ("search", True, None, "ann")
    with pytest.raises(AccessRefused):
        ledger.search("walrus", across=True, actor="ben", purpose="curious")
    assert [line.allowed for line in ledger.access.decisions()] == [True, False]


def test_by_default_nobody_searches_across_conversations(ledger):
    talk(ledger)
    with pytest.raises(AccessRefused):
        ledger.search("refund", across=True, actor="ann", purpose="complaint 12")
    assert ledger.search("refund", "case", actor="ann", purpose="complaint 12").hits
    assert [line.allowed for line in ledger.access.decisions()] == [False, True]


def test_what_is_above_the_class_asked_for_is_not_shown(ledger):
    talk(ledger, said=["begin"])
    record(ledger, ledger.stream_of("case"), Part({"said": "walrus"}, klass="personal"))
    assert len(ledger.search("walrus", "case").hits) == 1
    assert ledger.search("walrus", "case", classification="confidential").hits == ()
    assert ledger.search("walrus", "case", actor="ann", purpose="x").hits == ()
    assert len(ledger.search("walrus", "case", actor="ann", purpose="x", classification="personal").hits) == 1


def test_a_conversation_that_is_not_there_is_named(ledger):
    with pytest.raises(StreamNotFound):
        ledger.search("refund", "nobody")


def test_operators_work_on_request(ledger):
    talk(ledger, said=["begin", "kettle refund", "kettle repair", "toaster refund", 'said "a or b"'])

    def found(query):
        return [hit.snippet.text for hit in ledger.search(query, "case", operators=True).hits]

    assert found("kettle refund") == ["kettle refund"]
    assert found("refund AND NOT kettle") == ["toaster refund"]
    assert found("kettle (repair OR toaster)") == ["kettle repair"]
    assert found("toaster OR repair") == ["toaster refund", "kettle repair"]
    assert found('"""a or b"""') == ['said "a or b"']


@pytest.mark.parametrize(
    "query", ["", "(", ")", "a OR", "OR a", "NOT", "NOT a", '"open', '""', "a AND", "(" * 100 + "a"]
)
def test_a_query_that_cannot_be_read_says_where(ledger, query):
    talk(ledger, said=["begin"])
    with pytest.raises(SearchQueryInvalid) as raised:
        ledger.search(query, "case", operators=True)
    assert raised.value.hint
    assert isinstance(raised.value.fields["at"], int)


def test_another_tenant_sees_nothing_of_it(anywhere):
    if anywhere is None:
        world = World()
        first, second = world.worker("first"), world.worker("second")
    else:
        first, second = (
            counterfoil.open(anywhere, tenant="first"),
            counterfoil.open(anywhere, tenant="second"),
        )
    with closing(first), closing(second):
        talk(first)
        talk(second, said=["begin", "Order O-9"])
        assert len(second.search("Order O-", "case").hits) == 1
        assert len(first.search("Order O-", "case").hits) == 1
        with pytest.raises(StreamNotFound):
            second.search("Order", first.stream_of("case"))


def test_live_keys_are_neither_indexed_nor_shown(ledger):
    talk(ledger, said=["begin", "token sk-live-4eC39HqLyjWDarjtT1zdp7dc in the output"])
    assert ledger.search("4eC39HqLyj", "case").hits == ()
    (hit,) = ledger.search("in the output", "case").hits
    assert "4eC39" not in hit.snippet.text


def record(ledger, stream_id, *parts):
    draft = Draft(
        ledger.ports.new_id("evt"),
        "note.kept",
        time_text(ledger.ports.now_ms()),
        {"type": "system", "id": "test"},
        parts=parts,
        ignorable=True,
    )
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))


def test_what_is_secret_is_not_searched(ledger):
    talk(ledger, said=["begin"])
    stream_id = ledger.stream_of("case")
    record(ledger, stream_id, Part({"code": "4711-alpha"}, klass="secret"))
    record(ledger, stream_id, Part({"code": "4712-alpha"}, klass="personal"))
    (hit,) = ledger.search("-alpha", "case").hits
    assert hit.snippet.text == "4712-alpha"


def person(ledger, stream_id, name):
    return ledger.keyring.material(ledger.keyring.subject_key(stream_id, name).key_id)


def test_bytes_of_an_erased_conversation_are_in_no_file_of_the_index(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        talk(ledger, "kept", [f"kettle number {number} of the kept" for number in range(40)])
        talk(ledger, "gone", [f"WALRUS-{number} zebrafish" for number in range(40)])
        assert len(ledger.search("zebrafish", "gone", limit=100).hits) == 40
        assert holds(tmp_path / "ledger", b"zebrafish")
        assert ledger.erase_from_search(conversation="gone") >= 40
        assert not holds(tmp_path / "ledger", b"zebrafish", b"walrus", b"ebrafis", b"ebr", b"alr")
        assert ledger.search("zebrafish", "gone").hits == ()
        assert len(ledger.search("kettle number", "kept", limit=100).hits) == 40
        # Made again from a ledger that still holds it: it stays away.
        ledger.rebuild_search()
        assert not holds(tmp_path / "ledger", b"zebrafish")
        assert len(ledger.search("kettle number", "kept", limit=100).hits) == 40


def holds(directory, *wanted):
    found = b"".join(path.read_bytes() for path in directory.glob("search.db*"))
    return any(one in found for one in wanted)


def test_parts_of_one_person_go_and_those_of_the_other_stay(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        talk(ledger, said=["begin"])
        stream_id = ledger.stream_of("case")
        ann, ben = person(ledger, stream_id, "ann"), person(ledger, stream_id, "ben")
        record(
            ledger,
            stream_id,
            Part({"both": {"$part": 1}}),
            Part({"said": "quokka"}, ann),
            Part({"said": "marmot"}, ben),
        )
        assert len(ledger.search("quokka", "case").hits) == len(ledger.search("marmot", "case").hits) == 1
        assert ledger.erase_from_search(keys=(ann.key_id,)) == 1
        assert not holds(tmp_path / "ledger", b"quokka", b"uokk")
        assert holds(tmp_path / "ledger", b"marmot")
        ledger.rebuild_search()
        assert ledger.search("quokka", "case").hits == ()
        assert len(ledger.search("marmot", "case").hits) == 1


def test_content_that_is_gone_since_it_was_indexed_is_not_shown(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        talk(ledger, said=["begin"])
        stream_id = ledger.stream_of("case")
        ann = person(ledger, stream_id, "ann")
        record(ledger, stream_id, Part({"said": "quokka"}, ann))
        assert len(ledger.search("quokka", "case").hits) == 1
        ledger.keyring.store.delete([ann.key_id])
    with counterfoil.open(tmp_path / "ledger") as ledger:
        answer = ledger.search("quokka", "case")
        assert answer.hits == ()
        assert answer.approximate == ("gone",)


def test_an_event_of_a_type_that_this_build_does_not_know_is_found_too(ledger):
    talk(ledger, said=["begin"])
    record(ledger, ledger.stream_of("case"), Part({"drawn": "walrus on canvas"}))
    (hit,) = ledger.search("walrus on", "case").hits
    assert hit.event_type == "note.kept"


def test_a_damaged_record_is_said_and_hides_no_neighbour(tmp_path):
    place = tmp_path / "ledger"
    with counterfoil.open(place, search="off") as opened:
        talk(opened, said=["walrus one", "walrus two"])
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DROP TRIGGER event_content_update")
        connection.execute(
            "UPDATE event_content SET record = CAST(x'01' || substr(record, 3) AS BLOB)"
            " WHERE slot = (SELECT 16 * position FROM event WHERE event_type = 'admission.accepted')"
        )
        connection.commit()
    with counterfoil.open(place) as opened:
        answer = opened.search("walrus", "case")
        assert [hit.event_type for hit in answer.hits] == ["step.finished"]
        assert answer.approximate == ("unread",)


def test_what_was_spilled_to_an_artifact_is_found(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as opened:
        with opened.run("agent", conversation="case", message="begin") as run:
            run.step("long", lambda: ["filler " * 50_000, "the walrus at the end"])
        (hit,) = [hit for hit in opened.search("walrus at", "case").hits if hit.event_type == "step.finished"]
        assert hit.snippet.text == "the walrus at the end"


def test_what_is_too_large_to_be_indexed_is_said(tmp_path, monkeypatch):
    from counterfoil.client import indexed

    monkeypatch.setattr(indexed, "SPILLED_BYTES_MAX", 100_000)
    with counterfoil.open(tmp_path / "ledger") as opened:
        with opened.run("agent", conversation="case", message="begin") as run:
            run.step("long", lambda: ["filler " * 50_000, "walrus"])
        answer = opened.search("walrus", "case")
        assert (answer.hits, answer.approximate) == ((), ("cut",))


# ---- the file --------------------------------------------------------------------------------------------------------


def spoil(path, how):
    if how == "garbage":
        path.write_bytes(b"this is no database at all, whatever its name may be" * 100)
        return
    with closing(sqlite3.connect(path)) as connection:
        match how:
            case "half made":
                connection.execute("DROP TABLE doc")
            case "no words":
                connection.execute("DROP TABLE words")
            case "newer":
                connection.execute("PRAGMA user_version = 99")
            case "older":
                connection.execute("PRAGMA user_version = 0")
            case "somebody else's":
                connection.execute("PRAGMA application_id = 1")
            case "another ledger's":
                connection.execute("UPDATE meta SET value = 'ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG'")
            case "other words":
                connection.execute("DROP TABLE words")
                connection.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
        connection.commit()


SPOILT = {
    "garbage": "damaged",
    "half made": "partial",
    "no words": "partial",
    "newer": "newer",
    "older": "unknown",
    "somebody else's": "unknown",
    "another ledger's": "foreign",
    "other words": "unknown",
}


@pytest.mark.parametrize("how", SPOILT)
def test_an_index_that_is_not_whole_is_named_and_hides_no_truth(tmp_path, how):
    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        talk(ledger)
        ledger.search("refund", "case")
    spoil(place / "search.db", how)
    with pytest.raises(SearchUnusable) as raised:
        counterfoil.open(place)
    assert raised.value.fields["reason"] == SPOILT[how]
    with counterfoil.open(place, search="off") as ledger:
        talk(ledger)
        with pytest.raises(SearchUnavailable):
            ledger.search("refund", "case")
        ledger.search_place = "on"
        if SPOILT[how] in {"unknown", "newer"}:
            with pytest.raises(SearchUnusable):
                ledger.rebuild_search()
            (place / "search.db").unlink()
        else:
            ledger.rebuild_search()
        assert ledger.search("refund", "case").approximate == ()
        assert len(ledger.search("refund", "case").hits) == 2


def test_without_fts5_a_ledger_opens_only_with_search_off(tmp_path, monkeypatch):
    monkeypatch.setitem(schema.TABLES, "words", "CREATE VIRTUAL TABLE words USING nothing(body)")
    with pytest.raises(SearchUnavailable):
        counterfoil.open(tmp_path / "ledger")
    with counterfoil.open(tmp_path / "ledger", search="off") as ledger:
        talk(ledger)


def test_a_ledger_put_back_to_an_older_state_is_noticed(tmp_path):
    import shutil

    place = tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        talk(ledger)
    shutil.copytree(place, tmp_path / "backup")
    with counterfoil.open(place) as ledger:
        talk(ledger)
        ledger.search("refund", "case")
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (place / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup" / "ledger.db", place)
    with counterfoil.open(place) as ledger:
        with pytest.raises(SearchUnusable, match="older state"):
            ledger.search("refund", "case")
        ledger.rebuild_search()
        assert len(ledger.search("refund", "case").hits) == 1


def test_the_lag_is_said_when_there_is_no_time_to_catch_up(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "BATCH_EVENTS", 4)
    with counterfoil.open(tmp_path / "ledger") as ledger:
        talk(ledger)
        answer = ledger.search("Order", "case", wait_s=0.0)
        assert not answer.lag.caught_up
        assert answer.lag.events > 0
        assert "lag" in answer.approximate
        assert ledger.index_search().caught_up
        assert ledger.search("Order", "case", wait_s=0.0).lag.events == 0


@pytest.mark.parametrize("after", [-1, "x", True, 2.5])
def test_what_is_no_place_in_an_answer_is_refused(ledger, after):
    with ledger.run("agent", conversation="case", message="kettle"):
        pass
    with pytest.raises(InvalidForm, match="after"):
        ledger.search("kettle", "case", after=after)
