"""A scripted conversation of a support agent: prose and a tool's JSON, the same for every contender and every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

SEED: Final = 7
COMPACTED_AT: Final = (1 / 3, 2 / 3)
"""After which part of the turns the history is replaced by a summary and its last messages."""

KEPT_MESSAGES: Final = 12
"""Messages at the end of the history that a compaction leaves as they are."""

SLOTS: Final = ("plan", "customer", "promised")
SYSTEM: Final = (
    "You are the support agent of a shop for kitchen goods. Look up before you answer, and never promise money that no "
    "policy allows. Refunds above 100.00 are put to a person. Answer in the customer's language, in short sentences."
)
_WORDS: Final = (
    "the of and to in is you that it for on are as with they at be this have from or one had by but not what all were "
    "we when your can said there use an each which do how their if will up other about out many then them these so some "
    "would make like him into time has look two more write go see number no way could people my than first been call who "
    "its now find long down day did get come made may part order refund kettle carrier invoice parcel address customer "
    "shipped delivered tracking warehouse broken replaced warranty receipt payment card bank transfer amount total "
    "discount voucher support agent reply question answer thanks sorry please wait check status pending confirmed "
    "cancelled returned yesterday tomorrow morning evening week month handle lid base cable switch water boil leak noise"
).split()
_NAMES: Final = ("kettle", "toaster", "scale", "grinder", "whisk", "pan", "knife", "board")
_CITIES: Final = ("Utrecht", "Lyon", "Porto", "Graz", "Gdańsk", "Malmö", "Cork", "Ostrava")


class Turn(Struct, frozen=True):
    """One turn: the messages that come in, what the model answers, and what happens before it.

    ``summary`` replaces the history but for its last messages; ``slot`` is a state slot that is set, with its value.
    """

    number: int
    messages: tuple[dict[str, Any], ...]
    answer: str
    summary: dict[str, Any] | None = None
    slot: tuple[str, Any] | None = None

    def after(self, history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The history that this turn's request carries."""
        if self.summary is not None:
            history = [history[0], self.summary, *history[-KEPT_MESSAGES:]]
        return [*history, *self.messages]

    @property
    def answered(self) -> dict[str, Any]:
        """The answer as the next request carries it."""
        return {"role": "assistant", "content": self.answer}


def tools() -> list[dict[str, Any]]:
    """What every request carries beside its messages."""
    text = {"type": "string"}
    return [
        {
            "name": name,
            "description": f"{verb} an order of this shop by its number, and says what became of it.",
            "parameters": {
                "type": "object",
                "properties": {"order": text, "line": {"type": "integer"}, "reason": text},
                "required": ["order"],
            },
        }
        for name, verb in (("look_up", "Looks up"), ("refund", "Refunds"), ("replace", "Replaces"))
    ]


def opening() -> list[dict[str, Any]]:
    """The history before the first turn."""
    return [{"role": "system", "content": SYSTEM}]


def dialogue(turns: int, turn_bytes: int, seed: int = SEED) -> Iterator[Turn]:
    """So many turns, each of which adds about ``turn_bytes`` to the history: question, a tool's result, answer."""
    chance = random.Random(seed)  # noqa: S311 - the same conversation each time is the point
    compacted = (
        {max(1, round(turns * part)) for part in COMPACTED_AT} if turns >= 2 * KEPT_MESSAGES else set()
    )
    for number in range(turns):
        asked = _prose(chance, turn_bytes // 5)
        found = _orders(chance, turn_bytes * 2 // 5)
        answer = _prose(chance, turn_bytes - len(asked) - len(found))
        summary = (
            {"role": "user", "content": f"So far: {_prose(chance, 1500)}"} if number in compacted else None
        )
        slot = (SLOTS[number % 3], {"turn": number, "note": _prose(chance, 120)}) if number % 50 < 3 else None
        messages = ({"role": "user", "content": asked}, {"role": "tool", "content": found})
        yield Turn(number, messages, answer, summary, slot)


def _prose(chance: random.Random, size: int) -> str:
    """Words as people use them, the frequent ones more often, with numbers and stops between."""
    said: list[str] = []
    length = 0
    while length < size:
        word = (
            _WORDS[min(int(chance.paretovariate(0.9)) - 1, len(_WORDS) - 1)]
            if chance.random() < 0.6
            else chance.choice(_WORDS)
        )
        if chance.random() < 0.05:
            word = str(chance.randint(10, 99_999))
        if chance.random() < 0.12:
            word += chance.choice(".,?!")
        said.append(word)
        length += len(word) + 1
    return " ".join(said)[:size]


def _orders(chance: random.Random, size: int) -> str:
    """What a tool returns: records of one form with values of their own."""
    found: list[str] = []
    length = 2
    while length < size:
        line = json.dumps(
            {
                "order": f"O-{chance.randint(10_000, 99_999)}",
                "status": chance.choice(("shipped", "delivered", "returned", "pending")),
                "item": chance.choice(_NAMES),
                "quantity": chance.randint(1, 4),
                "price": f"{chance.randint(5, 200)}.{chance.randint(0, 99):02}",
                "city": chance.choice(_CITIES),
                "tracking": f"{chance.getrandbits(48):012X}",
            }
        )
        found.append(line)
        length += len(line) + 2
    return f"[{', '.join(found)}]"[:size]
