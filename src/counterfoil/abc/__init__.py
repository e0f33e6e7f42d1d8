"""The protocols that a host may implement itself: clock, ids, key provider, key store, artifact store, policy, authorizer."""

from __future__ import annotations

from counterfoil.abc.artifacts import ArtifactStore, ArtifactUpload
from counterfoil.abc.authorizer import AccessDecision, AccessRequest, Actor, Authorizer
from counterfoil.abc.keys import EpochKeyProvider, KeyProvider, KeyRow, KeyStore, SubjectRow
from counterfoil.abc.policy import Asking, Policy, Proposal, Ruling
from counterfoil.abc.time import Clock, Ids

__all__ = [
    "AccessDecision",
    "AccessRequest",
    "Actor",
    "ArtifactStore",
    "ArtifactUpload",
    "Asking",
    "Authorizer",
    "Clock",
    "EpochKeyProvider",
    "Ids",
    "KeyProvider",
    "KeyRow",
    "KeyStore",
    "Policy",
    "Proposal",
    "Ruling",
    "SubjectRow",
]
