"""The catalogue of event types and the registry an application adds its own to."""

from __future__ import annotations

import pytest

from counterfoil.core.catalogue import CLASSES, EVENT_TYPES, TERMINALS, Registry
from counterfoil.core.fields import FieldForm, parse_form
from counterfoil.errors import InvalidForm, PublicFieldRefused, UnknownEventType

ULID = "01J9ZC3Y3V7W2R5T8QK4M6N0PE"
DIGEST = "ab" * 32

GOOD = {
    "h": DIGEST,
    "t": "ab" * 16,
    "sha": DIGEST,
    "n": 0,
    "bool": False,
    "label": "a",
    "name": "~0123456789abcdef",
    "decimal": "-0.50",
    "time": "2026-09-01T14:31:08.412Z",
    "type": "a.b",
    "labels": ["a"],
    "types": ["a.b"],
}
BAD = {
    "h": ["ab" * 16, DIGEST.upper(), 5, None],
    "t": [DIGEST, None],
    "sha": ["x", None],
    "n": [1.0, "1", True, 2**53, None],
    "bool": [0, 1, "true", None],
    "label": ["a b", "", "x" * 129, "ada@shop.example", None],
    "name": ["~ab", "a b", None],
    "decimal": [1, "1e5", "", None],
    "time": ["2026-09-01", None],
    "type": ["a", None],
    "labels": ["a", ["a b"], [1], ["a"] * 65, None],
    "types": [["a"], None],
    "id": [f"xyz_{ULID}", f"kek_{ULID}x", "", None],
    "ids": [[ULID], ULID, [f"evt_{ULID}"] * 65, None],
    "enum": ["another", "", 1, None],
}


def good(form: FieldForm) -> object:
    if form.kind == "enum":
        return form.choices[0]
    if form.kind in ("id", "ids"):
        made = f"{(form.choices or ('evt',))[0]}_{ULID}"
        return made if form.kind == "id" else [made]
    return GOOD[form.kind]


def valid(spec) -> dict:
    """Data with every field of a type, but of groups only the first."""
    spare = frozenset().union(*spec.groups[1:]) if spec.groups else frozenset()
    return {name: good(form) for name, form in sorted(spec.fields.items()) if name not in spare}


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize("spec", EVENT_TYPES.values(), ids=EVENT_TYPES.keys())
def test_every_type_takes_its_fields_with_and_without_the_optional_ones(registry, spec):
    data = valid(spec)
    assert registry.check(spec.event_type, 1, data, False) is spec
    kept = {
        name: value
        for name, value in data.items()
        if not spec.fields[name].optional or name in spec.groups[:1]
    }
    for name in spec.groups[0] if spec.groups else ():
        kept[name] = data[name]
    assert registry.check(spec.event_type, 1, kept, False) is spec
    assert registry.fault(spec.event_type, 1, kept) is None


@pytest.mark.parametrize("spec", EVENT_TYPES.values(), ids=EVENT_TYPES.keys())
def test_every_type_refuses_a_field_too_many_too_few_or_of_another_form(registry, spec):
    data = valid(spec)
    changed = [("customer", {**data, "customer": "x"})]
    for name, form in spec.fields.items():
        if name not in data:
            continue
        changed += [(name, {**data, name: bad}) for bad in BAD[form.kind]]
        if not form.optional:
            changed.append((name, {key: value for key, value in data.items() if key != name}))
    for name, wrong in changed:
        with pytest.raises(PublicFieldRefused) as refusal:
            registry.check(spec.event_type, 1, wrong, False)
        assert refusal.value.field == name
        assert name in refusal.value.message
        assert registry.fault(spec.event_type, 1, wrong) is not None


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_no_registered_type_is_ignorable(registry, event_type):
    spec = EVENT_TYPES[event_type]
    with pytest.raises(PublicFieldRefused):
        registry.check(event_type, 1, valid(spec), True)
    assert registry.fault(event_type, 1, valid(spec), True) is not None


def test_the_catalogue_has_every_row_of_the_format_and_three_that_were_decided_on_since():
    later = {"run.cancel_requested", "turn.checked", "ledger.restored"}  # ADR 0015, 0017 and 0051
    assert later < set(EVENT_TYPES)
    assert len(EVENT_TYPES) == 88 + len(later)
    assert len(TERMINALS) == 14


def test_no_field_of_any_type_can_carry_free_text():
    kinds = {form.kind for spec in EVENT_TYPES.values() for form in spec.fields.values()}
    assert kinds <= {*GOOD, "id", "ids", "enum"}


def test_a_retry_names_an_effect_or_a_call_and_not_both(registry):
    data = valid(EVENT_TYPES["retry.decided"])
    call = {"call_id": f"cal_{ULID}"}
    without = {name: value for name, value in data.items() if name != "effect_id"}
    registry.check("retry.decided", 1, {**without, **call}, False)
    for wrong in (without, {**data, **call}):
        with pytest.raises(PublicFieldRefused, match="exactly one"):
            registry.check("retry.decided", 1, wrong, False)


def test_a_deletion_names_a_key_an_object_or_a_range(registry):
    data = valid(EVENT_TYPES["deletion.completed"])
    rest = {name: value for name, value in data.items() if name != "key"}
    ranged = {"from_sequence": 1, "to_sequence": 9}
    registry.check("deletion.completed", 1, {**rest, **ranged}, False)
    registry.check("deletion.completed", 1, {**rest, "object": DIGEST}, False)
    for wrong in (rest, {**data, "object": DIGEST}, {**rest, "from_sequence": 1}, {**data, **ranged}):
        with pytest.raises(PublicFieldRefused):
            registry.check("deletion.completed", 1, wrong, False)


def test_a_refusal_never_repeats_the_value_or_an_odd_field_name(registry):
    with pytest.raises(PublicFieldRefused) as refusal:
        registry.check("admission.accepted", 1, {"admission_id": "ada@shop.example"}, False)
    assert "ada" not in str(refusal.value)
    with pytest.raises(PublicFieldRefused) as refusal:
        registry.check("admission.accepted", 1, {"admission_id": f"adm_{ULID}", "Ada Example": 1}, False)
    assert "Ada" not in str(refusal.value)


# ---- an application's own types ----------------------------------------------------------------------------------


def test_a_declared_type_has_its_own_public_fields(registry):
    registry.declare("order.paid", 2, {"kind": "{web,shop}", "amount?": "decimal", "order": "id:eff"})
    data = {"kind": "web", "order": f"eff_{ULID}"}
    assert registry.known("order.paid", 2)
    assert registry.check("order.paid", 2, data, False) is registry.spec("order.paid", 2)
    with pytest.raises(PublicFieldRefused):
        registry.check("order.paid", 2, {**data, "amount": "4,00"}, False)


def test_a_declared_type_is_ignorable_only_if_it_was_declared_so(registry):
    registry.declare("order.paid")
    registry.declare("order.seen", ignorable=True)
    registry.check("order.seen", 1, {}, True)
    registry.check("order.seen", 1, {}, False)
    with pytest.raises(PublicFieldRefused):
        registry.check("order.paid", 1, {}, True)


def test_an_undeclared_type_is_accepted_only_as_ignorable_and_without_public_fields(registry):
    assert registry.check("order.paid", 1, {}, True) is None
    with pytest.raises(UnknownEventType):
        registry.check("order.paid", 1, {}, False)
    for data in ({"order": "O-1042"}, {"Ada Example": 1}):
        with pytest.raises(PublicFieldRefused) as refusal:
            registry.check("order.paid", 1, data, True)
        assert not {"O-1042", "Ada"} & set(str(refusal.value).split())


def test_an_unknown_version_of_a_known_type_is_refused_even_as_ignorable(registry):
    registry.declare("order.paid", 1, ignorable=True)
    for event_type in ("order.paid", "effect.intended"):
        with pytest.raises(UnknownEventType) as refusal:
            registry.check(event_type, 2, {}, True)
        assert (refusal.value.event_type, refusal.value.version) == (event_type, 2)


def test_declaring_the_same_again_is_allowed_and_something_else_is_not(registry):
    registry.declare("order.paid", 1, {"a": "n"})
    registry.declare("order.paid", 1, {"a": "n"})
    with pytest.raises(InvalidForm):
        registry.declare("order.paid", 1, {"a": "label"})
    registry.declare("order.paid", 2, {"a": "label"})


def test_a_declaration_of_one_registry_does_not_reach_another(registry):
    registry.declare("order.paid")
    assert not Registry().known("order.paid", 1)


@pytest.mark.parametrize(
    "event_type, version, public",
    [
        ("effect.intended", 2, {}),
        ("order", 1, {}),
        ("Order.paid", 1, {}),
        ("order.paid", 0, {}),
        ("order.paid", 1, {"note": "text"}),
        ("order.paid", 1, {"note": "str"}),
        ("order.paid", 1, {"Note": "label"}),
        ("order.paid", 1, {"a b": "label"}),
        ("order.paid", 1, {"a": "id:xyz"}),
        ("order.paid", 1, {"a": "label:evt"}),
        ("order.paid", 1, {"a": "{}"}),
        ("order.paid", 1, {"a": "{a b}"}),
        ("order.paid", 1, {"a": ""}),
    ],
)
def test_a_declaration_that_could_carry_text_or_take_a_name_is_refused(registry, event_type, version, public):
    with pytest.raises(InvalidForm):
        registry.declare(event_type, version, public)


def test_the_class_of_content_is_one_of_five(registry):
    registry.declare("order.paid", 1, default_class="personal")
    assert registry.default_class("order.paid") == "personal"
    assert registry.default_class("never.declared") in CLASSES
    with pytest.raises(InvalidForm):
        registry.declare("order.sent", 1, default_class="private")


def test_the_class_of_content_is_the_same_in_every_version(registry):
    registry.declare("order.paid", 1, default_class="personal")
    registry.declare("order.paid", 2, default_class="personal")
    with pytest.raises(InvalidForm):
        registry.declare("order.paid", 3)


def test_a_form_is_written_as_it_is_read():
    for notation in (*GOOD, "id:evt", "id", "ids:eff", "ids", "{a,b}"):
        assert parse_form(notation).notation() == notation
        assert parse_form(notation).describe()


def test_stored_data_of_an_unregistered_type_is_only_checked_to_be_flat(registry):
    assert registry.fault("x.canvas.drawn", 3, {"a": "any text", "b": [1, 2], "c": True}) is None
    for wrong in ({"a": {}}, {"a": None}, {"a": 0.5}, {"a": [1, "x"]}, {"a": [[1]]}, {"a": ["x"] * 65}):
        assert registry.fault("x.canvas.drawn", 3, wrong) is not None
