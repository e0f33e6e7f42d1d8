"""The features of a ledger put together: each is a class of methods, and loaded when one of them is first asked for (ADR 0081).

A process that opens a ledger, runs and acts needs a small part of what a ledger can do, and every process pays for the
code that it loads. For a type checker :class:`Features` is therefore made of all features, and at run time of none: a
name that it has not makes the class of that name one of its bases, after which it is a class as any other.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from counterfoil.client.nursing import Nursing
from counterfoil.client.search_place import SearchPlaced

HOMES: Final[dict[str, tuple[str, ...]]] = {
    "admitting.Admitting": ("aadmit", "admit", "defer", "let_in"),
    "approving.Approving": ("approvals", "approve", "deny", "revoke"),
    "archiving.Archiving": ("export_archive", "import_archive"),
    "budgeting.Budgeting": ("budgets",),
    "companions.Companions": ("companion", "companions", "declare_table"),
    "doctoring.Doctoring": ("doctor",),
    "journaling.Journaling": ("abandon_turns", "journal", "keep_turns", "turn", "turns"),
    "keykeeping.KeyKeeping": ("destroy_kek", "keys_held", "rotate_keys"),
    "observing.Observing": ("observe",),
    "asof.Rewinding": ("at",),
    "projecting.Projecting": (
        "project",
        "projection",
        "projection_rows",
        "projector",
        "rebuild_projection",
    ),
    "reconciling.Reconciling": ("reconcile",),
    "repairing.Repairing": (
        "aresume_repair",
        "arepair",
        "close_repair",
        "correct",
        "corrections",
        "fact",
        "open_repair",
        "repair",
        "repair_plan",
        "repair_report",
        "repair_row",
        "repairs",
        "resume_repair",
    ),
    "rehearsing.Rehearsing": ("diff", "rehearsals", "rehearse"),
    "replaying.Replaying": ("replay",),
    "requesting.Requesting": ("request", "requests"),
    "reviewing.Reviewing": ("assign", "reviews", "settle"),
    "searching.Searching": (
        "erase_from_search",
        "index_search",
        "rebuild_search",
        "search",
        "search_lag",
    ),
    "access.Accessing": ("access", "reading"),
    "artifacts.Keeping": ("artifacts",),
    "scheduling.Scheduling": (
        "aschedule",
        "cancel_schedule",
        "fire_due",
        "schedule",
        "schedules",
        "timer",
    ),
    "stating.Stating": ("slot_history", "slots"),
    "stopping.Stopping": ("cancel", "hold", "holds", "release", "shadowed"),
    "working.Working": ("carry_out", "ready", "ready_inputs", "record_tools", "recorded_schema", "worker"),
    "childing.Childing": ("children", "parent_of", "recover_children"),
}
"""Each feature, with the names that lead to it: all that are public, in the order in which they are bases.

A name that can be assigned to is not among them, since assigning asks for nothing.
"""

_HOME: Final = {name: home for home, names in HOMES.items() for name in names}
_PACKAGE: Final = __name__.rpartition(".")[0]

if TYPE_CHECKING:
    from counterfoil.client.access import Accessing
    from counterfoil.client.admitting import Admitting
    from counterfoil.client.approving import Approving
    from counterfoil.client.archiving import Archiving
    from counterfoil.client.artifacts import Keeping
    from counterfoil.client.asof import Rewinding
    from counterfoil.client.budgeting import Budgeting
    from counterfoil.client.childing import Childing
    from counterfoil.client.companions import Companions
    from counterfoil.client.doctoring import Doctoring
    from counterfoil.client.journaling import Journaling
    from counterfoil.client.keykeeping import KeyKeeping
    from counterfoil.client.observing import Observing
    from counterfoil.client.projecting import Projecting
    from counterfoil.client.reconciling import Reconciling
    from counterfoil.client.rehearsing import Rehearsing
    from counterfoil.client.repairing import Repairing
    from counterfoil.client.replaying import Replaying
    from counterfoil.client.requesting import Requesting
    from counterfoil.client.reviewing import Reviewing
    from counterfoil.client.scheduling import Scheduling
    from counterfoil.client.searching import Searching
    from counterfoil.client.stating import Stating
    from counterfoil.client.stopping import Stopping
    from counterfoil.client.working import Working

    class Features(
        Admitting,
        Approving,
        Archiving,
        Budgeting,
        Companions,
        Doctoring,
        Journaling,
        KeyKeeping,
        Observing,
        Rewinding,
        Projecting,
        Reconciling,
        Repairing,
        Rehearsing,
        Replaying,
        Requesting,
        Reviewing,
        Searching,
        Accessing,
        Keeping,
        Scheduling,
        Stating,
        Stopping,
        Working,
        Childing,
        SearchPlaced,
        Nursing,
    ):
        """Every feature of a ledger."""

else:

    class _Growing(type):
        """The type of :class:`Features`, so that ``Ledger.repair`` and ``dir(Ledger)`` know what is not loaded."""

        def __getattr__(cls, name: str) -> Any:
            if not _take_in(name):
                raise AttributeError(
                    f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls
                )
            return super().__getattribute__(name)

        def __dir__(cls) -> list[str]:
            return sorted({*super().__dir__(), *_HOME})

    class Features(SearchPlaced, Nursing, metaclass=_Growing):
        """Every feature of a ledger."""

        def __getattr__(self, name: str) -> Any:
            if not _take_in(name):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
                )
            return super().__getattribute__(name)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *_HOME})


_TAKEN: Final[dict[str, type]] = {}
_TAKING: Final = threading.RLock()


def _take_in(name: str) -> bool:
    """Make the feature of this name a base of :class:`Features`; False where no feature has it."""
    home = _HOME.get(name)
    if home is None:
        return False
    # Loaded before the lock is taken: whoever imports holds a lock of his own, and may ask for another feature.
    module, _, feature = home.rpartition(".")
    found = getattr(import_module(f"{_PACKAGE}.{module}"), feature)
    with _TAKING:
        if home not in _TAKEN:
            _TAKEN[home] = found
            Features.__bases__ = (*(_TAKEN[one] for one in HOMES if one in _TAKEN), SearchPlaced, Nursing)
    return True
