"""The registry of event types: the product's own and those an application declares, with their checks (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from counterfoil.core.event_types import CLASSES, DEFAULT_CLASS, EVENT_TYPES, TERMINALS, TypeSpec
from counterfoil.core.fields import FieldForm, is_flat, parse_fields, shown_field
from counterfoil.core.forms import is_event_type
from counterfoil.errors import InvalidForm, PublicFieldRefused, UnknownEventType

__all__ = ["CLASSES", "DEFAULT_CLASS", "EVENT_TYPES", "TERMINALS", "FieldForm", "Registry", "TypeSpec"]

_MISSING: Final = object()


class Registry:
    """Event types known to this process: the product's, and what the application declared at start.

    Declaring is for start-up; afterwards any number of threads may check.
    """

    __slots__ = ("_classes", "_specs")

    def __init__(self) -> None:
        self._specs: dict[tuple[str, int], TypeSpec] = {}
        self._classes: dict[str, str] = {}

    def declare(
        self,
        event_type: str,
        version: int = 1,
        public: Mapping[str, str | FieldForm] | None = None,
        ignorable: bool = False,
        *,
        default_class: str = DEFAULT_CLASS,
        content: str = "",
    ) -> TypeSpec:
        """Declare an application's type; saying the same again is allowed.

        ``public`` maps names (``?`` at the end: optional) to forms: ``label name n bool h t sha decimal time type
        labels types``, ``id:evt``, ``ids:eff``, ``{a,b}``. Raises InvalidForm for a form that could carry text, a
        type of the product, or a second declaration that differs; the default class is the same in every version.
        """
        if not is_event_type(event_type):
            raise InvalidForm(
                "an event type reads like order.paid: 2 to 5 dotted lower-case words", hint="see FORMAT 1"
            )
        if event_type in EVENT_TYPES:
            raise InvalidForm(
                f"{event_type} is a type of Counterfoil itself", hint="choose a name of your own"
            )
        if type(version) is not int or version < 1:
            raise InvalidForm(f"the version of {event_type} is an integer from 1 on")
        if default_class not in CLASSES:
            raise InvalidForm(f"the class of {event_type} is one of {', '.join(CLASSES)}")
        if self._classes.get(event_type, default_class) != default_class:
            raise InvalidForm(
                f"{event_type} is declared already, with another class", hint="name the class in each event"
            )
        fields = MappingProxyType(parse_fields(public or {}))
        spec = TypeSpec(event_type, version, fields, content, ignorable, default_class)
        known = self._specs.setdefault((event_type, version), spec)
        if known != spec:
            raise InvalidForm(
                f"{event_type} version {version} is declared already, with other fields",
                hint="a changed declaration takes a new version",
            )
        self._classes[event_type] = default_class
        return known

    def spec(self, event_type: str, version: int) -> TypeSpec | None:
        """What is known of this type in this version, or None."""
        spec = self._specs.get((event_type, version))
        if spec is None and event_type in EVENT_TYPES and EVENT_TYPES[event_type].version == version:
            spec = self._specs[event_type, version] = EVENT_TYPES[event_type]
        return spec

    def known(self, event_type: str, version: int) -> bool:
        """Whether the type is registered in this version."""
        return self.spec(event_type, version) is not None

    def default_class(self, event_type: str) -> str:
        """The class of content where the header names none; ``confidential`` for a type that is not registered."""
        if event_type in EVENT_TYPES:
            return EVENT_TYPES[event_type].default_class
        return self._classes.get(event_type, DEFAULT_CLASS)

    def types(self) -> list[TypeSpec]:
        """Every registered type and version, by name."""
        every = {(spec.event_type, spec.version): spec for spec in EVENT_TYPES.values()} | self._specs
        return [every[key] for key in sorted(every)]

    def check(
        self, event_type: str, version: int, data: Mapping[str, Any], ignorable: bool
    ) -> TypeSpec | None:
        """Check an event on its way in; None is returned for an undeclared type, which must be ignorable.

        Raises PublicFieldRefused naming field and form, or UnknownEventType for an unknown version.
        """
        spec = self._specs.get((event_type, version)) or self.spec(event_type, version)
        if spec is None:
            self._check_undeclared(event_type, version, data, ignorable)
            return None
        if ignorable and not spec.ignorable:
            raise PublicFieldRefused(
                f"{event_type} cannot be ignorable: readers must not pass over it",
                event_type=event_type,
                field="ignorable",
            )
        name = spec.data_check.faulty(data)
        if name is not None:
            raise self._refused(spec, name, data)
        return spec

    def _check_undeclared(
        self, event_type: str, version: int, data: Mapping[str, Any], ignorable: bool
    ) -> None:
        if event_type in EVENT_TYPES or event_type in self._classes:
            raise UnknownEventType(
                f"{event_type} is known, but not in version {version}",
                hint="declare that version, or use a newer Counterfoil",
                event_type=event_type,
                version=version,
            )
        if not ignorable:
            raise UnknownEventType(
                f"{event_type} is not declared and not ignorable",
                hint="declare it with ledger.declare, or record it as ignorable",
                event_type=event_type,
                version=version,
            )
        if data:
            raise PublicFieldRefused(
                f"{event_type} is not declared, so a field {shown_field(next(iter(data)))} cannot stand in its header",
                hint="put it into content, or declare the type with its public fields",
                event_type=event_type,
                field=shown_field(next(iter(data))),
            )

    def _refused(self, spec: TypeSpec, name: str, data: Mapping[str, Any]) -> PublicFieldRefused:
        return PublicFieldRefused(
            f"{spec.event_type} version {spec.version}: {describe_fault(spec, name, data)}",
            event_type=spec.event_type,
            field=shown_field(name),
            hint="whatever comes from outside is content (FORMAT 7)",
        )

    def fault(
        self, event_type: str, version: int, data: Mapping[str, Any], ignorable: bool = False
    ) -> str | None:
        """What is wrong with a stored event's public fields, in words without values, or None.

        Of a type that is not registered only the flat shape is checked.
        """
        spec = self._specs.get((event_type, version)) or self.spec(event_type, version)
        if spec is None:
            return None if is_flat(data) else "data of an unregistered type is not flat"
        name = spec.data_check.faulty(data)
        if name is not None:
            return describe_fault(spec, name, data)
        return "this type is never ignorable" if ignorable and not spec.ignorable else None


def describe_fault(spec: TypeSpec, name: str, data: Mapping[str, Any]) -> str:
    """Which public field is refused and which form it should have; never its value."""
    form = spec.fields.get(name)
    if form is None:
        return f"no public field {shown_field(name)}; it has {', '.join(spec.fields) or 'none'}"
    if name not in data and not form.optional:
        return f"the public field {name} is missing; it is {form.describe()}"
    groups = [" with ".join(sorted(group)) for group in spec.groups]
    if groups and any(name in group for group in spec.groups) and _fits(form, data.get(name, _MISSING)):
        return f"exactly one of {', or '.join(groups)} is given"
    return f"the public field {name} must be {form.describe()}"


def _fits(form: FieldForm, value: Any) -> bool:
    return value is _MISSING or form.check()(value)
