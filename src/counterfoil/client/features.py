"""The features of a ledger: whose tables the store has, and whose rows follow from each event."""

from __future__ import annotations

from typing import Final

from counterfoil.access.rows import FEATURE as ACCESS
from counterfoil.approvals.rows import FEATURE as APPROVALS
from counterfoil.artifacts.rows import FEATURE as ARTIFACTS
from counterfoil.companions.rows import COMPANIONS
from counterfoil.effects.declaring import FEATURE as DECLARED
from counterfoil.effects.lever import FEATURE as LEVER
from counterfoil.effects.rows import FEATURE as EFFECTS
from counterfoil.effects.shadow import FEATURE as SHADOW
from counterfoil.journal.rows import FEATURE as TURNS
from counterfoil.keys.rows import FEATURE as KEYS
from counterfoil.projections.rows import FEATURE as PROJECTIONS
from counterfoil.repair.rows import FEATURE as REPAIR
from counterfoil.runtime.budgets.rows import FEATURE as BUDGETS
from counterfoil.runtime.children.rows import FEATURE as CHILDREN
from counterfoil.runtime.rehearsals import FEATURE as REHEARSALS
from counterfoil.runtime.rows import FEATURE as RUNTIME
from counterfoil.runtime.schedules.rows import FEATURE as SCHEDULES
from counterfoil.runtime.slots.rows import FEATURE as SLOTS
from counterfoil.store.rows import Feature, TableSpec

FEATURES: Final[tuple[Feature, ...]] = (
    RUNTIME,
    SLOTS,
    SCHEDULES,
    BUDGETS,
    CHILDREN,
    EFFECTS,
    DECLARED,
    LEVER,
    SHADOW,
    APPROVALS,
    REPAIR,
    ARTIFACTS,
    KEYS,
    PROJECTIONS,
    TURNS,
    ACCESS,
    REHEARSALS,
)

TABLES: Final[tuple[TableSpec, ...]] = (
    *(table for feature in FEATURES for table in feature.tables),
    # Not of a feature: its rows follow from no event.
    COMPANIONS,
)
