"""A handle that shows content in one session only: what is not of a single event, and what is kept of it for others."""

from __future__ import annotations

import pytest

from counterfoil.access import RoleAuthorizer
from counterfoil.errors import AccessRefused, ContentUnavailable
from counterfoil.flow.requests import Events
from counterfoil.projections import Projection


def said(state, event):
    return [*state, event.content.get("message")]


@pytest.fixture
def guarded(ledger):
    """The ledger of ``conftest`` with a projection, a companion and an artifact above what is usual."""
    ledger.authorizer = RoleAuthorizer({"sam": ["security"]})
    ledger.project(Projection("said", 1, [], said, types=frozenset({"admission.accepted"})))
    orders = ledger.declare_table("orders", "number")
    with ledger.run("shop", conversation="c", message="And my kettle?") as run:
        run.record("x.ordered", {}, ignorable=True, rows=[orders.put({"number": 1, "who": "Ines"})])
        run.artifact(b"pin", name="pin.txt", classification="secret")
    with ledger.run("shop", conversation="other", message="Elsewhere."):
        pass
    yield ledger
    ledger.ports.session, ledger.ports.withheld = None, ""


def enter(ledger, conversation="c", **how):
    """As a program for one person does: everything it reads from now on is read in this session."""
    reader = ledger.reading(conversation, actor="sam", purpose="why", **how).__enter__()
    ledger.ports.session = reader.session


def test_a_state_is_folded_of_what_the_session_shows_and_not_taken_from_a_checkpoint(guarded):
    whole = guarded.projection("said", "c").state
    assert whole == ["Where is my parcel?", "And my kettle?"]
    enter(guarded, classification="public")
    assert guarded.projection("said", "c").state == [None, None]


def test_nothing_that_a_session_narrowed_is_kept_for_others(guarded):
    before = guarded.store.head(guarded.stream_of("c"))
    enter(guarded, classification="public")
    guarded.rebuild_projection("said", "c")
    assert guarded.store.head(guarded.stream_of("c")) == before
    with guarded.run("shop", conversation="c", message="More."):
        pass
    guarded.ports.session = None
    assert guarded.projection("said", "c").state == ["Where is my parcel?", "And my kettle?", "More."]


@pytest.mark.parametrize(
    "conversation, how",
    [("other", {}), ("c", {"classification": "public"}), ("c", {"after": 3}), ("c", {"up_to": 3})],
)
def test_a_companion_is_shown_in_a_session_of_its_whole_conversation_and_class(guarded, conversation, how):
    enter(guarded)
    assert guarded.companion("c", "orders", 1).row["who"] == "Ines"
    enter(guarded, conversation, **how)
    with pytest.raises(ContentUnavailable, match="withheld"):
        _ = guarded.companion("c", "orders", 1).row


def test_an_artifact_above_the_class_of_the_session_is_withheld_from_who_may_read_it_otherwise(guarded):
    found = guarded.artifacts.find(str(guarded.artifacts.rows("c")[0]["sha256"]))
    enter(guarded, classification="secret")
    assert found.read() == b"pin"
    enter(guarded)
    with pytest.raises(AccessRefused, match="it is secret, and this reading was opened for confidential"):
        found.read()


def test_a_long_record_that_is_read_lightly_is_read_in_the_session_too(guarded):
    query = Events(guarded.stream_of("c"), types=frozenset({"admission.accepted"}), lightly=True)
    assert [event.content_state for event in guarded.ports.events(query)] == ["present", "present"]
    enter(guarded, "other")
    assert [event.content_state for event in guarded.ports.events(query)] == ["withheld", "withheld"]


def test_a_search_says_who_asks_where_the_handle_shows_nothing_by_itself(guarded):
    assert guarded.search("kettle", "c").hits
    guarded.ports.withheld = "nobody said who reads"
    with pytest.raises(AccessRefused) as caught:
        guarded.search("kettle", "c")
    assert caught.value.fields["rule"] == "access-required"
    assert guarded.search("kettle", "c", actor="sam", purpose="why").hits
