"""Canonical encoding against ``rfc8785`` on values as agents have them, every one compared byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.rounds import PROCESSOR, Contender, Scale, side_by_side
from counterfoil.core.canonical import encode

TEXTS: Final = (
    "My kettle came broken. Order O-1042, line 1.",
    "Grüße aus Köln – «ça va»? Preis: 40,00 €",
    "注文番号 O-1042 の返金をお願いします。",
    'line one\nline two\ttabbed "quoted" back\\slash',
    "👩‍🚀 astral, \u2028 separator, \x07 bell",
    "The refund of 40.00 was booked. " * 12,
)
PRICES: Final = (40, 12.5, 7.25, 3, 19.99, 0.35, 1200, 64.9)
ODD_FLOATS: Final = (1e21, 1e-7, 2.0, -0.0, 1e16, 5e-324, 0.000035, -123456789.0, 1.7976931348623157e308)
"""Floats that the quick encoder writes differently, so that they take a longer way."""

VARIANTS: Final = 30


def corpus() -> list[Any]:
    """What agents have recorded: messages, tool calls and results, responses, schemas, whole requests.

    One result in ten holds a float that takes the longer way.
    """
    makers = (_message, _call, _result, _response, _schema, _request)
    return [make(number) for number in range(VARIANTS) for make in makers]


def oddities() -> list[Any]:
    """Values whose canonical text is easily got wrong: floats, escapes, the order of names."""
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6", "Z", "a", ""]
    return [
        *ODD_FLOATS,
        {name: place for place, name in enumerate(names)},
        [{"n": number, "t": text} for number, text in zip(ODD_FLOATS, TEXTS, strict=False)],
        "".join(map(chr, range(0x80))),
        {"a": [[[[]]], {}], "b": None, "c": [True, False, 9_007_199_254_740_991]},
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

    compared = [*values, *oddities()]
    mismatches = sum(encode(value) != rfc8785.dumps(value) for value in compared)
    contenders = {"ours": Contender(ours), "rfc8785": Contender(theirs)}
    taken = side_by_side(contenders, rounds=scale.rounds(21), items=len(values), clock=PROCESSOR)
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
            "canonical.mismatches",
            f"values that differ, of {len(compared)}",
            mismatches,
            "",
            Budget(at_most=0),
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
    rows = [{"sku": f"K-{n}", "qty": n, "price": PRICES[(number + n) % len(PRICES)]} for n in range(8)]
    total = ODD_FLOATS[number // 10 % len(ODD_FLOATS)] if number % 10 == 0 else 144.25
    return {"ok": True, "error": None, "rows": rows, "total": total}


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


def _request(number: int) -> Any:
    messages = [_message(number + at) for at in range(12)]
    tools = [_schema(number), _schema(number + 1)]
    return {
        "model": "example-1",
        "messages": messages,
        "tools": tools,
        "temperature": 0.7,
        "max_tokens": 4096,
    }
