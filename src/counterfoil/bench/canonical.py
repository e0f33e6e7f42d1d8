"""Canonical encoding against ``rfc8785`` on values as agents have them, every one compared byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.rounds import Contender, Scale, side_by_side
from counterfoil.core.canonical import encode

TEXTS: Final = (
    "My kettle came broken. Order O-1042, line 1.",
    "Grüße aus Köln – «ça va»? Preis: 40,00 €",
    "注文番号 O-1042 の返金をお願いします。",
    'line one\nline two\ttabbed "quoted" back\\slash',
    "👩‍🚀 astral, \u2028 separator, \x07 bell",
    "The refund of 40.00 was booked. " * 12,
)
NUMBERS: Final = (
    0,
    1,
    -7,
    42,
    1_788_273_068_412,
    9_007_199_254_740_991,
    0.7,
    0.1,
    40.5,
    1e21,
    1e-7,
    2.0,
    -0.0,
)
VARIANTS: Final = 40


def corpus() -> list[Any]:
    """Messages, tool calls, results and responses; nothing that RFC 8785 itself cannot hold."""
    return [
        make(number) for number in range(VARIANTS) for make in (_message, _call, _result, _response, _schema)
    ]


def encode_canonical(scale: Scale, _directory: Path) -> list[Figure]:
    """Speed, and how many of the values come out differently."""
    import rfc8785

    values = corpus()

    def ours(count: int) -> None:
        for value in values[:count]:
            encode(value)

    def theirs(count: int) -> None:
        for value in values[:count]:
            rfc8785.dumps(value)

    mismatches = sum(encode(value) != rfc8785.dumps(value) for value in values)
    contenders = {"ours": Contender(ours), "rfc8785": Contender(theirs)}
    taken = side_by_side(contenders, rounds=scale.rounds(21), items=len(values))
    size = sum(len(encode(value)) for value in values) / len(values)
    return [
        Figure(
            "canonical.speed",
            "in terms of rfc8785's speed",
            taken.speed("ours", "rfc8785"),
            "×",
            Budget(at_least=10),
        ),
        Figure(
            "canonical.mismatches", f"values that differ, of {len(values)}", mismatches, "", Budget(at_most=0)
        ),
        Figure("canonical.time", f"one value of {size:.0f} bytes", taken.median("ours") * 1e6, "µs"),
    ]


def _message(number: int) -> Any:
    text = TEXTS[number % len(TEXTS)]
    return {
        "role": ("user", "assistant")[number % 2],
        "content": [{"type": "text", "text": text}],
        "id": f"m_{number}",
    }


def _call(number: int) -> Any:
    arguments = {
        "order": f"O-{number}",
        "line": number % 7,
        "amount": "40.00",
        "reason": TEXTS[(number + 1) % 6],
    }
    return {"tool": "payment.refund", "arguments": arguments, "idempotency_key": f"refund:O-{number}:1"}


def _result(number: int) -> Any:
    rows = [{"sku": f"K-{n}", "qty": n, "price": NUMBERS[(number + n) % len(NUMBERS)]} for n in range(8)]
    return {"ok": True, "error": None, "rows": rows, "total": NUMBERS[number % len(NUMBERS)]}


def _response(number: int) -> Any:
    usage = {"input_tokens": 212 + number, "output_tokens": 31, "cached_tokens": 0, "cost": "0.0021"}
    return {
        "model": "example-1",
        "finish": "tools",
        "text": TEXTS[number % 6],
        "usage": usage,
        "temperature": 0.7,
    }


def _schema(number: int) -> Any:
    names = ("order", "line", "amount", "Straße", "注文", "reason")
    properties = {
        name: {"type": "string", "description": TEXTS[(number + at) % 5]} for at, name in enumerate(names)
    }
    return {
        "name": "refund",
        "parameters": {"type": "object", "properties": properties, "required": list(names)},
    }
