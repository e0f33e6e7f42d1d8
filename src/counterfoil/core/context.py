"""Exact requests at linear size: bodies, the context tree of a stream, and segments (FORMAT 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from counterfoil.core.canonical import encode
from counterfoil.core.forms import is_digest
from counterfoil.core.ids import is_id
from counterfoil.core.keyed import ROOT_NODE, KeyMaterial
from counterfoil.core.limits import BODIES_MAX, BODY_BYTES_MIN, BRANCH_BYTES_MAX
from counterfoil.errors import ContentDamaged, InvalidForm

JOIN: Final = ","
"""What stands between two messages of a JSON list."""

TEXT_FORM: Final = "text"
"""How a body that moved to an artifact is to be read back: the plain bytes are those of the text."""

_NOTHING: Final[Mapping[str, bytes]] = {}

Segment = dict[str, str]
"""``{"raw": text}``, ``{"body": address}`` or ``{"path": tip, "join": text}``."""


class Cut(NamedTuple):
    """The bytes of a request in three: ``before + join.join(bodies) + after``."""

    before: bytes
    bodies: tuple[bytes, ...]
    after: bytes
    join: bytes = JOIN.encode()

    def whole(self) -> bytes:
        """The bytes as sent."""
        return self.before + self.join.join(self.bodies) + self.after


class SaidText(NamedTuple):
    """A text that a ``provider.responded`` holds: its event, and the text in canonical form as messages repeat it."""

    event_id: str
    text: bytes


class Exact(NamedTuple):
    """A request as it is recorded.

    ``segments`` are content of ``provider.requested``, ``tip``, ``bodies`` and ``request`` its public fields;
    ``branches`` are the contents of the ``provider.message_recorded`` that must be durable with or before it.
    """

    segments: list[Segment]
    tip: bytes
    bodies: int
    request: bytes
    branches: list[dict[str, Any]]


class Body(NamedTuple):
    """A body that an event records, under its address; ``data`` None where it moved to an artifact of that address."""

    address: bytes
    data: bytes | None


class Nodes:
    """The hashes of a context tree: each node's parent and body, and which bodies there are.

    100 to 200 bytes of memory per node, and no key: it may be kept for as long as anybody likes.
    """

    __slots__ = ("bodies", "parents")

    def __init__(self) -> None:
        self.parents: dict[bytes, tuple[bytes, bytes]] = {}
        self.bodies: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.parents) + len(self.bodies)


class ContextTree:
    """What one stream has recorded of its context tree, under the stream's key.

    It holds hashes only; a reader keeps the bodies where it likes. ``nodes`` goes on with a tree that was folded before.
    """

    __slots__ = ("_bodies", "_material", "_nodes")

    def __init__(self, material: KeyMaterial, nodes: Nodes | None = None) -> None:
        known = Nodes() if nodes is None else nodes
        self._material = material
        self._nodes = known.parents
        self._bodies = known.bodies

    def holds(self, address: bytes) -> bool:
        """Whether a body is recorded."""
        return address in self._bodies

    def knows(self, node: bytes) -> bool:
        """Whether a node is recorded; the root always is."""
        return node == ROOT_NODE or node in self._nodes

    def add(self, branch: Mapping[str, Any], moved: Mapping[str, bytes] = _NOTHING) -> list[Body]:
        """Take in the content of one ``provider.message_recorded``; the bodies it brings, in order.

        ``moved`` gives the address of each object that a body moved to, by its name, as the header has it: such a body
        need not be read for the tree. Raises ``ContentDamaged`` for a form that FORMAT 9 does not know, a parent or a
        body that was not recorded before; then nothing is taken in.
        """
        parent = _parent_of(branch)
        if parent is not None and not self.knows(parent):
            raise ContentDamaged("the parent of a branch was not recorded before it", check="parent")
        brought: list[Body] = []
        nodes: dict[bytes, tuple[bytes, bytes]] = {}
        for address, data, written in self._entries(branch, moved):
            if written:
                brought.append(Body(address, data))
            elif address not in self._bodies and all(body.address != address for body in brought):
                raise ContentDamaged("a body named by its address was not recorded before", check="body")
            if parent is not None:
                node = self._material.node_at(parent, address)
                nodes[node] = (parent, address)
                parent = node
        self._bodies.update(body.address for body in brought)
        self._nodes.update(nodes)
        return brought

    def _entries(
        self, branch: Mapping[str, Any], moved: Mapping[str, bytes]
    ) -> Iterator[tuple[bytes, bytes | None, bool]]:
        bodies = branch.get("bodies")
        if not isinstance(bodies, list) or not 1 <= len(bodies) <= BODIES_MAX:
            raise ContentDamaged(f"a branch has 1 to {BODIES_MAX} bodies", check="form")
        for entry in bodies:
            if isinstance(entry, str):
                data = _bytes(entry)
                yield self._material.address(data), data, True
            elif isinstance(entry, Mapping) and set(entry) == {"body"}:
                yield _digest(entry["body"]), None, False
            elif (address := _moved_to(entry, moved)) is not None:
                yield address, None, True
            elif is_said(entry):
                yield _digest(entry["body"]), None, True
            else:
                raise ContentDamaged("an entry of a branch is text or names a body", check="form")

    def shared(self, one: Sequence[bytes], other: Sequence[bytes]) -> int:
        """How many bodies two paths have in common from the root on: what a provider's prompt cache can use."""
        return next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )

    def path(self, tip: bytes) -> list[bytes]:
        """The addresses of the bodies from the root to ``tip``. Raises ``ContentDamaged`` for an unknown node."""
        found: list[bytes] = []
        while tip != ROOT_NODE:
            if tip not in self._nodes:
                raise ContentDamaged("a request names a node that was not recorded before it", check="tip")
            tip, address = self._nodes[tip]
            found.append(address)
        found.reverse()
        return found

    def exact(self, cut: Cut, said: Sequence[SaidText] = ()) -> Exact:
        """How a request is recorded: what is new to this tree, and segments that name the rest.

        ``said`` are texts of durable responses: a message that repeats one names it in place of writing it out. The tree
        stays as it is; :meth:`add` the branches once they are durable. Raises ``InvalidForm`` for bytes that are not
        UTF-8.
        """
        planned = _Planned(self, self._material, said)
        before = planned.side(cut.before)
        after = planned.side(cut.after)
        tip = planned.walk(cut.bodies)
        middle = [{"path": tip.hex(), "join": _text(cut.join)}] if cut.bodies else []
        request = self._material.address(cut.whole())
        return Exact([*before, *middle, *after], tip, len(cut.bodies), request, planned.branches)

    def rebuild(self, segments: Sequence[Any], request: bytes, body_of: Callable[[bytes], bytes]) -> bytes:
        """The exact bytes of a request. Raises ``ContentDamaged`` when they are not those that were sent.

        ``body_of`` gives the body of an address and raises what it likes for one that is erased or withheld.
        """
        found = b"".join([self._segment(segment, body_of) for segment in segments])
        if self._material.address(found) != request:
            raise ContentDamaged(
                "the segments of a request do not make the bytes that were sent", check="request"
            )
        return found

    def _segment(self, segment: Any, body_of: Callable[[bytes], bytes]) -> bytes:
        match segment:
            case {"raw": str(text), **rest} if not rest:
                return _bytes(text)
            case {"body": address, **rest} if not rest:
                return body_of(_digest(address))
            case {"path": tip, "join": str(join), **rest} if not rest:
                return _bytes(join).join([body_of(address) for address in self.path(_digest(tip))])
        raise ContentDamaged("a segment of a request has a form that FORMAT 9 does not know", check="form")


class _Planned:
    """The branches of one request under way: a body is written out once, in the tree or here."""

    def __init__(self, tree: ContextTree, material: KeyMaterial, said: Sequence[SaidText]) -> None:
        self._tree = tree
        self._material = material
        self._said = said
        self._fresh: set[bytes] = set()
        self._open_bytes = 0
        self.branches: list[dict[str, Any]] = []

    def side(self, data: bytes) -> list[Segment]:
        """What stands before or after the messages: short text as it is, long text as a body."""
        if len(data) < BODY_BYTES_MIN:
            return [{"raw": _text(data)}] if data else []
        address = self._material.address(data)
        if not self._tree.holds(address) and address not in self._fresh:
            self._fresh.add(address)
            self.branches.append({"bodies": [_text(data)]})
        return [{"body": address.hex()}]

    def walk(self, bodies: Sequence[bytes]) -> bytes:
        """The node of the last body; what the tree does not know becomes branches."""
        node, branch = ROOT_NODE, list[Any]()
        for body in bodies:
            address = self._material.address(body)
            parent, node = node, self._material.node_at(node, address)
            if self._tree.knows(node):
                continue
            entry, size = self._entry(address, body)
            if not branch or len(branch) == BODIES_MAX or self._open_bytes + size > BRANCH_BYTES_MAX:
                branch, self._open_bytes = [], 0
                self.branches.append({"parent": parent.hex(), "bodies": branch})
            branch.append(entry)
            self._open_bytes += size
        return node

    def _entry(self, address: bytes, body: bytes) -> tuple[str | dict[str, Any], int]:
        if self._tree.holds(address) or address in self._fresh:
            return {"body": address.hex()}, len(address) * 2
        self._fresh.add(address)
        for said in self._said:
            at = body.find(said.text)
            if at >= 0:
                around = [_text(body[:at]), _text(body[at + len(said.text) :])]
                entry = {"body": address.hex(), "said": said.event_id, "in": around}
                return entry, len(body) - len(said.text) + len(address) * 2
        return _text(body), len(body)


def cut_request(whole: bytes, bodies: Sequence[bytes], join: str = JOIN) -> Cut:
    """Where the messages lie in the bytes as sent; bytes that do not hold them in order are left whole (FORMAT 9)."""
    joined = join.encode().join(bodies)
    at = whole.find(joined) if bodies else -1
    if at < 0:
        return Cut(whole, (), b"", join.encode())
    return Cut(whole[:at], tuple(bodies), whole[at + len(joined) :], join.encode())


def is_said(entry: Any) -> bool:
    """Whether an entry is a body that repeats the text of a response: ``{"body", "said": event id, "in": [before, after]}``."""
    if (
        not isinstance(entry, Mapping)
        or set(entry) != {"body", "said", "in"}
        or not is_id(entry["said"], "evt")
    ):
        return False
    around = entry["in"]
    return isinstance(around, list) and len(around) == 2 and all(isinstance(side, str) for side in around)


def said_body(entry: Mapping[str, Any], text: str) -> bytes:
    """The body of such an entry, given the text of the response. Raises ``ContentDamaged`` for half characters."""
    before, after = entry["in"]
    return _bytes(before) + encode(text) + _bytes(after)


def _moved_to(entry: Any, moved: Mapping[str, bytes]) -> bytes | None:
    """The address of a body that spilled: its artifact is made of the body's own bytes (FORMAT 10, form ``text``)."""
    inner = entry.get("$spilled") if isinstance(entry, Mapping) and len(entry) == 1 else None
    if not isinstance(inner, Mapping) or inner.get("form") != TEXT_FORM:
        return None
    return moved.get(str(inner.get("sha256")))


def _parent_of(branch: Mapping[str, Any]) -> bytes | None:
    if not set(branch) <= {"parent", "bodies"}:
        raise ContentDamaged("a branch has members that FORMAT 9 does not know", check="form")
    return _digest(branch["parent"]) if "parent" in branch else None


def _digest(text: Any) -> bytes:
    if not isinstance(text, str) or not is_digest(text):
        raise ContentDamaged("a node or an address is 64 hexadecimal digits", check="form")
    return bytes.fromhex(text)


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ContentDamaged("a text of a request is not Unicode", check="form") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidForm(f"a request is UTF-8; byte {error.start} is not", offset=error.start) from None
