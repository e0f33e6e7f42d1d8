"""Roles as data: what each may do with which class, who has one, and what an operation needed."""

from __future__ import annotations

import pytest

from counterfoil.access import DEFAULT_ROLES, AccessRequest, Actor, EmbeddedAuthorizer, Role, RoleAuthorizer
from counterfoil.access.roles import role_of
from counterfoil.core.event_types import CLASSES
from counterfoil.errors import InvalidForm

ANN = Actor("ann@example.org")


def asked(action="read", klass="confidential", actor=ANN, **facts):
    return AccessRequest(action, actor, "a complaint", klass=klass, **facts)


@pytest.mark.parametrize(
    "role, action, highest",
    [
        ("worker", "read", "secret"),
        ("worker", "search", None),
        ("worker", "erase", None),
        ("recovery", "read", "secret"),
        ("operator", "read", "internal"),
        ("operator", "search", None),
        ("operator", "glass", None),
        ("auditor", "read", "personal"),
        ("auditor", "search", "confidential"),
        ("auditor", "export", "personal"),
        ("auditor", "disclose", "confidential"),
        ("auditor", "erase", None),
        ("retention", "read", None),
        ("retention", "erase", "secret"),
        ("security", "read", "secret"),
        ("security", "glass", "secret"),
        ("security", "erase", None),
    ],
)
def test_a_role_reaches_up_to_one_class_for_each_action(role, action, highest):
    authorizer = RoleAuthorizer({ANN.name: [role]})
    allowed = [klass for klass in CLASSES if authorizer.decide(asked(action, klass)).allowed]
    assert allowed == ([] if highest is None else list(CLASSES[: CLASSES.index(highest) + 1]))


def test_every_role_of_the_design_is_there():
    assert set(DEFAULT_ROLES) == {"worker", "recovery", "operator", "auditor", "retention", "security"}


def test_somebody_without_a_role_is_refused_and_a_rule_says_so():
    assert RoleAuthorizer({}).decide(asked()) == RoleAuthorizer().decide(asked())
    assert (RoleAuthorizer().decide(asked()).allowed, RoleAuthorizer().decide(asked()).rule) == (
        False,
        "no-role",
    )


def test_a_class_in_between_that_a_role_does_not_have_is_not_reached_over():
    authorizer = RoleAuthorizer(
        {ANN.name: ["odd"]}, {"odd": Role({"read": frozenset({"public", "personal"})})}
    )
    assert authorizer.decide(asked(klass="public")).allowed
    assert not authorizer.decide(asked(klass="personal")).allowed


def test_programs_have_roles_by_what_they_are_and_a_name_given_roles_has_those():
    authorizer = RoleAuthorizer({"night-agent": ["retention"]})
    assert authorizer.decide(asked(actor=Actor("day-agent", "agent"))).rule == "worker"
    assert authorizer.decide(asked(actor=Actor("counterfoil", "system"))).rule == "recovery"
    assert not authorizer.decide(asked(actor=Actor("night-agent", "agent"))).allowed
    assert not authorizer.decide(asked(actor=Actor("gateway", "service"))).allowed


def test_what_an_operation_needed_is_held_by_name_or_pattern():
    roles = {"clerk": Role({"read": frozenset(CLASSES)}, frozenset({"payment.*"}))}
    authorizer = RoleAuthorizer({ANN.name: ["clerk"]}, roles)
    assert authorizer.decide(asked(permission="payment.refund")).rule == "clerk"
    assert authorizer.decide(asked(permission="mail.send")).rule == "permission"
    assert authorizer.decide(asked(permission=None)).allowed


def test_a_run_reads_what_was_made_for_the_person_it_acts_for_and_for_no_other():
    authorizer, agent = RoleAuthorizer({ANN.name: ["auditor"]}), Actor("refunds", "agent")
    made = {"principal": "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK", "permission": "orders.list"}
    assert authorizer.decide(asked(actor=agent, acts_for=made["principal"], **made)).allowed
    other = authorizer.decide(asked(actor=agent, acts_for="dk_01J9ZC3Y3V7W2R5T8QK4M6N0PX", **made))
    assert (other.allowed, other.rule) == (False, "other-principal")
    assert not authorizer.decide(asked(actor=agent, **made)).allowed
    assert authorizer.decide(asked(**made)).allowed


def test_without_roles_all_is_allowed_but_a_search_over_conversations():
    embedded = EmbeddedAuthorizer()
    assert embedded.decide(asked()).allowed
    assert embedded.decide(asked("search", stream_id="str_01J9ZC3Y3V7W2R5T8QK4M6N0PS")).allowed
    refused = embedded.decide(asked("search"))
    assert (refused.allowed, refused.rule) == (False, "search-everywhere")


@pytest.mark.parametrize(
    "given",
    [
        {"look": ["public"]},
        {"read": ["open"]},
        {"read": "public"},
        {"read": [1]},
        {"permissions": "all"},
    ],
)
def test_a_role_of_something_else_is_refused(given):
    with pytest.raises(InvalidForm):
        role_of(given)


def test_a_role_is_read_from_data():
    role = role_of({"read": ["public", "internal"], "permissions": ["payment.*"]})
    assert (role.actions["read"], role.permissions) == ({"public", "internal"}, {"payment.*"})


def test_roles_that_nobody_defined_are_refused():
    with pytest.raises(InvalidForm, match="role"):
        RoleAuthorizer({ANN.name: ["emperor"]})
    with pytest.raises(InvalidForm, match="label"):
        RoleAuthorizer(roles={"two words": Role()})
