"""The protocols a host may implement: clock, ids, keys, artifact store, policy, authorizer, host of children."""

from __future__ import annotations

from counterfoil.abc.artifacts import ArtifactStore, ArtifactUpload
from counterfoil.abc.authorizer import AccessDecision, AccessRequest, Actor, Authorizer
from counterfoil.abc.children import ChildHost, ChildLink, HostAnswer
from counterfoil.abc.host import Host
from counterfoil.abc.keys import EpochKeyProvider, KeyProvider, KeyRow, KeyStore, SubjectRow
from counterfoil.abc.policy import Asking, Policy, Proposal, Ruling
from counterfoil.abc.sandbox import Probed, SandboxProbe
from counterfoil.abc.time import Clock, Ids
from counterfoil.abc.timer import Timer

__all__ = [
    "AccessDecision",
    "AccessRequest",
    "Actor",
    "ArtifactStore",
    "ArtifactUpload",
    "Asking",
    "Authorizer",
    "ChildHost",
    "ChildLink",
    "Clock",
    "EpochKeyProvider",
    "Host",
    "HostAnswer",
    "Ids",
    "KeyProvider",
    "KeyRow",
    "KeyStore",
    "Policy",
    "Probed",
    "Proposal",
    "Ruling",
    "SandboxProbe",
    "SubjectRow",
    "Timer",
]
