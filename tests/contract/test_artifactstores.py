"""The artifact store contract on the memory store, its oracle, and on files."""

from __future__ import annotations

from counterfoil.adapters.filesystem.artifacts import FileArtifacts
from counterfoil.adapters.memory import MemoryArtifacts
from counterfoil.testing import ArtifactStoreContract


class TestMemoryArtifacts(ArtifactStoreContract):
    lasting = False

    def open_artifacts(self, directory):
        return MemoryArtifacts()


class TestFileArtifacts(ArtifactStoreContract):
    def open_artifacts(self, directory):
        return FileArtifacts(directory / "artifacts")
