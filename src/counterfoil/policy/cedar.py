"""A policy written in Cedar (extra ``cedar``): the call is the action, its arguments stand in the context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from counterfoil.abc.policy import Asking, Proposal, Ruling
from counterfoil.core.forms import is_label
from counterfoil.core.paths import Path, path_text
from counterfoil.errors import ConfigInvalid, InvalidForm

INTEGER_MAX: Final = 2**63 - 1
"""Cedar's numbers are 64 bits; beyond that a value has no form in it."""

DECIMAL_PLACES_MAX: Final = 4
"""Places of Cedar's decimal."""

REVISION_HEX: Final = 16


class CedarPolicy:
    """Judges calls by Cedar policies.

    A call is ``Agent::"<agent>"`` doing ``Action::"<tool>"`` to ``Tool::"<tool>"``. The context holds ``arguments``,
    ``touches`` (a set), ``version`` and ``approved``. What is permitted as it stands is allowed; what is permitted only
    with ``approved`` true is put to people, as ``asking`` says; anything else is denied. Rules are named by their
    ``@id`` annotation. A policy that meets an error while it is evaluated rules nothing, because Cedar would pass over
    a ``forbid`` that failed. Without a ``revision`` of yours it is made from policies, entities and schema.
    Raises ``ConfigInvalid`` for policies that do not parse.
    """

    def __init__(
        self,
        name: str,
        policies: str,
        *,
        revision: str | None = None,
        entities: Sequence[Mapping[str, Any]] = (),
        schema: str | None = None,
        asking: Asking | None = None,
    ) -> None:
        self._ids: Mapping[str, str] = _rule_ids(policies)
        self._policies = policies
        self._entities: list[Mapping[str, Any]] = list(entities)
        self._schema = schema
        self._asking: Asking = asking or Asking()
        self.name: str = name
        self.revision: str = revision or self._digest()
        if not is_label(name) or not is_label(self.revision):
            raise InvalidForm("a policy and its revision are named by labels: A-Za-z0-9_.:/+-")

    def _digest(self) -> str:
        text = json.dumps([self._policies, self._entities, self._schema], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:REVISION_HEX]

    def snapshot(self) -> dict[str, Any]:
        """The policies as text, with what they were given."""
        return {"policies": self._policies, "entities": self._entities, "schema": self._schema or ""}

    def evaluate(self, proposal: Proposal) -> Ruling:
        """What Cedar says; asked again with the approval granted when it does not permit the call as it stands."""
        permitted, rules = self._asked(proposal, approved=False)
        if permitted:
            return Ruling("allow", rules)
        with_approval, asking_rules = self._asked(proposal, approved=True)
        if with_approval:
            return Ruling("ask", asking_rules, asking=self._asking)
        return Ruling("deny", rules)

    def _asked(self, proposal: Proposal, *, approved: bool) -> tuple[bool, tuple[str, ...]]:
        cedar = _cedar()
        context = {
            "arguments": cedar_value(dict(proposal.arguments)),
            "touches": list(proposal.touches),
            "version": proposal.tool_version,
            "approved": approved,
        }
        request = {
            "principal": f"Agent::{json.dumps(proposal.agent)}",
            "action": f"Action::{json.dumps(proposal.tool)}",
            "resource": f"Tool::{json.dumps(proposal.tool)}",
            "context": context,
        }
        found = cedar.is_authorized(request, self._policies, self._entities, self._schema)
        if found.diagnostics.errors:
            raise InvalidForm(f"Cedar: {'; '.join(map(str, found.diagnostics.errors))}")
        rules = sorted(self._ids.get(reason, reason) for reason in found.diagnostics.reasons)
        return bool(found.allowed), tuple(rules)


def _rule_ids(policies: str) -> Mapping[str, str]:
    """The labels in ``@id`` annotations by Cedar's own names of the policies."""
    try:
        parsed = json.loads(_cedar().policies_to_json_str(policies))
    except ValueError as error:
        raise ConfigInvalid(f"these policies are not Cedar: {error}") from error
    named = {name: rule.get("annotations", {}).get("id") for name, rule in parsed["staticPolicies"].items()}
    return {name: label for name, label in named.items() if is_label(label)}


def cedar_value(value: Any, path: Path = None) -> Any:
    """A value in Cedar's JSON form; None is left out of a record. Raises InvalidForm with the path of any other."""
    match value:
        case bool() | str():
            return value
        case int() if abs(value) <= INTEGER_MAX:
            return value
        case Decimal() | float():
            return _decimal(value, path)
        case datetime() if value.tzinfo is not None:
            utc = value.astimezone(UTC).replace(tzinfo=None)
            return {"__extn": {"fn": "datetime", "arg": f"{utc.isoformat(timespec='milliseconds')}Z"}}
        case UUID():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [cedar_value(item, (path, place)) for place, item in enumerate(value)]
        case dict():
            return {
                str(name): cedar_value(item, (path, str(name)))
                for name, item in value.items()
                if item is not None
            }
        case _:
            raise _refused(path, f"is a {type(value).__name__}, which Cedar has no form for")


def _decimal(value: Decimal | float, path: Path) -> Any:
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    exponent = exact.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > DECIMAL_PLACES_MAX:
        raise _refused(path, f"has more than {DECIMAL_PLACES_MAX} decimal places, Cedar's most")
    text = f"{exact:f}"
    return {"__extn": {"fn": "decimal", "arg": text if "." in text else f"{text}.0"}}


def _refused(path: Path, why: str) -> InvalidForm:
    where = path_text(path, "arguments")
    return InvalidForm(f"{where} {why}", path=where)


def _cedar() -> Any:
    try:
        import cedarpy
    except ImportError as error:
        raise ConfigInvalid(
            "CedarPolicy needs cedarpy", hint="install Counterfoil with its extra: counterfoil[cedar]"
        ) from error
    return cedarpy
