"""One call of a tool in a run: its arguments in recordable form, which effect it is, and which call of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.artifacts.handle import address_of
from counterfoil.core.values import to_json
from counterfoil.effects.addresses import NO_ADDRESSES, Addresses
from counterfoil.effects.attempt import Work
from counterfoil.effects.compensation import Compensating
from counterfoil.effects.decisions import Decisions
from counterfoil.effects.doubt import DoubtKind
from counterfoil.effects.handle import Handle
from counterfoil.effects.identity import (
    Identity,
    Occurrence,
    binding,
    business_identity,
    run_identity,
    successor_index,
)
from counterfoil.effects.past import Past
from counterfoil.effects.permit import UNASKED, Permit
from counterfoil.effects.rows import EFFECT_KEYS
from counterfoil.effects.standing import Standing
from counterfoil.errors import ArgumentInvalid, ToolInvalid
from counterfoil.flow.context import RunScope, step_path
from counterfoil.store.rows import Absent, Guard

if TYPE_CHECKING:
    from counterfoil.effects.tool import Tool


class Asked(Struct, frozen=True):
    """One call of a tool in a run: its arguments twice (Python values, content), which effect it is, which call of it.

    ``past`` and ``decisions`` are what the run has on record. ``place`` is where the call stands in the program: which
    one of this tool's it is in its path, whatever its arguments; known in the main lane of a run under a policy.
    """

    scope: RunScope
    tool: Tool[..., Any]
    handle: Handle
    arguments: Mapping[str, Any]
    recorded: Mapping[str, Any]
    key: str | None
    identity: Identity
    occurrence: Occurrence | None
    number: int
    past: Past
    decisions: Decisions
    artifacts: Addresses = NO_ADDRESSES
    misfit: ArgumentInvalid | None = None
    place: Occurrence | None = None

    def binding(self, effect_id: str, recorded: Mapping[str, Any] | None = None) -> str:
        """The digest that ties decision, approval and intention to this very call (FORMAT 8).

        Raises ToolInvalid where what the call refers to cannot be read.
        """
        material = self.scope.ports.material(self.scope.stream_id)
        arguments = self.recorded if recorded is None else recorded
        artifacts = self.artifacts.found()
        return binding(material, effect_id, self.tool.name, self.tool.version, arguments, artifacts)

    def unfit(self) -> ToolInvalid | None:
        """What keeps this call from being sent; the outcome of one that is on record is handed out all the same."""
        if self.misfit is not None:
            return self.misfit
        try:
            self.artifacts.found()
        except ToolInvalid as refused:
            return refused
        return None

    def check_sendable(self) -> None:
        """Raise what keeps this call from being sent, before anything is written."""
        refused = self.unfit()
        if refused is not None:
            raise refused

    @property
    def key_row(self) -> tuple[str, str]:
        """Key of the row that enforces "once per tenant"."""
        return (self.scope.ports.tenant, self.identity.key_index)

    def row_after(self, effect: Standing) -> tuple[str, str]:
        """Key of the row of whoever takes the key over from an effect that was confirmed not done."""
        return (self.scope.ports.tenant, successor_index(self.scope.ports.index, effect.effect_id))

    def may_follow(self, effect: Standing) -> tuple[Guard, Guard]:
        """Guards of one more attempt after this one: nobody else has made it, and the effect is as it was."""
        return Absent(EFFECT_KEYS.name, self.row_after(effect)), effect.unchanged

    def work(
        self, effect_id: str, *, doubt: DoubtKind | None = None, permit: Permit = UNASKED, **more: Any
    ) -> Work:
        """This effect, to be busy with; its arguments are those that are permitted."""
        recorded = permit.recorded
        return Work(
            scope=self.scope,
            tool=self.tool,
            effect_id=effect_id,
            key=self.key or effect_id,
            recorded=self.recorded if recorded is None else recorded,
            artifacts=self.artifacts,
            permit=permit,
            doubt=doubt or self.tool.doubt.kind,
            handle=self.handle,
            occurrence=self.occurrence,
            identity=self.identity,
            compensates=self.scope.part(Compensating).effect_id,
            **more,
        )


def understood(scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any], handle: Handle) -> Asked:
    """Refuse arguments without a recordable form, by path; nothing is written then. Work out which effect it is."""
    misfit = tool.parameters.misfit(arguments, tool.name)
    recorded = to_json(arguments, "arguments")
    try:
        key = scope.part(Compensating).key_of(tool, arguments, recorded)
    except Exception as error:
        if misfit is not None:
            # What an argument of the wrong type leads to says less than that it is of the wrong type.
            raise misfit from error
        raise
    index = scope.ports.index
    occurrence: Occurrence | None = None
    if key is not None:
        identity = business_identity(index, key, recorded)
    else:
        identity = run_identity(index, scope.run_id, tool.name, recorded, None, tool.identity)
        if tool.each_call_its_own:
            path = step_path()
            occurrence = (path, scope.occurrence(tool.name, identity.arguments_index, path))
            identity = run_identity(index, scope.run_id, tool.name, recorded, occurrence, tool.identity)
    number = scope.occurrence("effect", identity.key_index, "")
    past, decisions = scope.part(Past), scope.part(Decisions)
    return Asked(
        scope,
        tool,
        handle,
        arguments,
        recorded,
        key,
        identity,
        occurrence,
        number,
        past,
        decisions,
        _addresses(scope, tool, arguments),
        place=_place(scope, tool, handle, decisions),
        misfit=misfit,
    )


def _place(scope: RunScope, tool: Tool[..., Any], handle: Handle, decisions: Decisions) -> Occurrence | None:
    if not handle.in_main_lane or (scope.policy is None and not decisions):
        return None
    path = step_path()
    return path, scope.occurrence("place", tool.name, path)


def _addresses(scope: RunScope, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> Addresses:
    if not tool.refers_to_artifacts:
        return NO_ADDRESSES

    def read() -> tuple[str, ...]:
        material = scope.ports.material(scope.stream_id)
        return tuple(tool.artifacts_of(arguments, lambda item: address_of(material, item)))

    return Addresses(read)
