"""What real tools and models said, put through summaries: one line, bounded, and nothing left that looks like a secret."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path

import pytest

from counterfoil.journal.summary import SUMMARY_CHARACTERS_MAX, Said, summary

pytestmark = pytest.mark.data

TEXTS_MAX = 20_000

# Written apart from the redaction itself, so that neither repeats the other's mistakes.
LEFT = {
    "an address": re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}"),
    "a key": re.compile(
        r"\b(?:sk-[A-Za-z0-9-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{12,}|xox[bp]-[\w-]{10,})"
    ),
    "a bearer token": re.compile(r"(?i)\bbearer[ _][a-z0-9._~+/-]{12,}"),
    "a long number": re.compile(r"\d{8,}"),
    "an opaque token": re.compile(r"\b(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{20,}\b"),
}


def texts():
    """Every text in every transcript, one after another; a bounded number of them."""
    for path in sorted(Path(os.environ["COUNTERFOIL_DATA"]).rglob("*.jsonl")):
        for line in path.read_text("utf-8", "surrogatepass").splitlines():
            try:
                left = [json.loads(line)]
            except ValueError:
                continue
            while left:
                node = left.pop()
                if isinstance(node, str):
                    yield node
                elif isinstance(node, dict):
                    left += node.values()
                elif isinstance(node, list):
                    left += node


def test_real_texts_leave_no_secret_and_no_broken_summary():
    seen, found = 0, []
    for _, text in zip(range(TEXTS_MAX), texts(), strict=False):
        seen += 1
        made = summary({"reason": Said(text), "error": Said(text[-300:])})
        assert len(made) <= SUMMARY_CHARACTERS_MAX
        assert len(made.splitlines()) <= 1
        assert unicodedata.category(made[-1]) not in {"Cf", "Cs"}
        found += [(what, match[0][:4]) for what, shape in LEFT.items() if (match := shape.search(made))]
    assert seen > 1000
    assert found == []


def test_real_names_of_tools_and_models_stay_readable():
    names = set()
    for path in sorted(Path(os.environ["COUNTERFOIL_DATA"]).rglob("*.jsonl")):
        names.update(
            re.findall(r'"(?:model|toolName)":\s*"([^"\\]{1,60})"', path.read_text("utf-8", "replace"))
        )
    assert names
    shown = {name: summary({"tool": name}).removeprefix("tool=") for name in names}
    assert {
        name for name, told in shown.items() if told != name and re.fullmatch(r"[\w.:/-]+", name)
    } == set()
