"""How a long conversation grows when every request is recorded exactly: the file against what was said in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.bench.dialogue import Turn, dialogue, opening, tools
from counterfoil.bench.figures import Budget, Figure
from counterfoil.bench.means import Means, Peers
from counterfoil.bench.rounds import Scale
from counterfoil.core import canonical

TURNS: Final = 500
SIZES: Final = ((2048, 2.0), (8192, 1.0))
"""Bytes that a turn adds to the history, and how often what was said the files may take (DESIGN 14)."""

PEER_BYTES: Final = 2048
CONVERSATION: Final = "growth"


class Conversation:
    """A scripted conversation under way: the history each request carries, and the exact bytes of what was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.said: dict[bytes, int] = {}
        self._history = opening()

    def turn(self, run: counterfoil.Run, turn: Turn) -> None:
        """One turn: perhaps a compaction and a slot, then the request with the whole history."""
        self._history = turn.after(self._history)
        if turn.summary is not None:
            run.compact(from_sequence=1, to_sequence=run_head(run), summary=turn.summary, cause="size")
        if turn.slot is not None:
            run.state[turn.slot[0]] = turn.slot[1]
        run.ask(self._model(turn), self._history, name="scripted-1", tools=tools(), temperature=0)
        for message in (*self._history, turn.answered):
            text = canonical.encode(message)
            self.said[text] = len(text)
        self._history.append(turn.answered)

    def _model(self, turn: Turn) -> Any:
        def model(request: counterfoil.Request) -> counterfoil.Response:
            self.sent.append(request.body)
            return counterfoil.Response(
                turn.answer,
                id=f"resp_{turn.number:08}",
                input_tokens=len(request.body) // 4,
                output_tokens=len(turn.answer) // 4,
                cost="0.0042",
                currency="USD",
            )

        return model

    @property
    def payload(self) -> int:
        """Bytes of all distinct messages and of what stands beside them in every request, each once."""
        return sum(self.said.values()) + len(canonical.encode(tools()))

    @property
    def squeezed(self) -> int:
        """The same after zlib, message by message: what no record of each can do without."""
        return sum(len(zlib.compress(text, 6)) for text in self.said)


def run_head(run: counterfoil.Run) -> int:
    """The newest sequence of the run's conversation that this run knows of."""
    return run._open_scope().outside.seen or 1  # noqa: SLF001 - a benchmark looks where no application has to


def files_in(directory: Path) -> int:
    """Bytes of all files of a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def recorded(directory: Path, turns: int, turn_bytes: int) -> Conversation:
    """The conversation in a ledger at ``directory``, closed when this returns."""
    conversation = Conversation()
    with counterfoil.open(directory) as ledger, ledger.run("support", conversation=CONVERSATION) as run:
        for turn in dialogue(turns, turn_bytes):
            conversation.turn(run, turn)
    return conversation


def unlike(directory: Path, conversation: Conversation) -> int:
    """How many requests another handle does not make again byte for byte."""
    with counterfoil.open(directory, read_only=True) as ledger:
        found = [request.body for request in ledger.requests(CONVERSATION)]
    missing = abs(len(found) - len(conversation.sent))
    return missing + sum(one != other for one, other in zip(found, conversation.sent, strict=False))


def growth(scale: Scale, directory: Path, means: Means) -> list[Figure]:
    """The size of the files in terms of the distinct payload, and whether every request can be made again."""
    turns = scale.items(TURNS)
    figures: list[Figure] = []
    for turn_bytes, at_most in SIZES:
        place = directory / f"ours-{turn_bytes}"
        conversation = recorded(place, turns, turn_bytes)
        name = f"{turn_bytes // 1024}kb"
        ratio = files_in(place) / conversation.payload
        note = f"{turns} turns; zlib alone takes what was said to {conversation.squeezed / conversation.payload:.2f}"
        figures += [
            Figure(
                f"growth.{name}",
                f"files at {name[:-2]} KB a turn, in what was said",
                ratio,
                "×",
                Budget(at_most=at_most),
                note,
            ),
            Figure(
                f"growth.{name}.unlike",
                "requests that are not made again byte for byte",
                unlike(place, conversation),
                "",
                Budget(at_most=0),
            ),
        ]
    return figures + (_peers(means.peers, directory, turns) if means.peers is not None else [])


# ---- beside peers ----------------------------------------------------------------------------------------------------


def _peers(peers: Peers, directory: Path, turns: int) -> list[Figure]:
    script = directory / "script.jsonl"
    payload = write_script(script, turns, PEER_BYTES)
    figures = []
    for name, words in (("with_langgraph", "LangGraph's SqliteSaver"), ("with_dbos", "DBOS")):
        place = directory / name
        with _grown(peers, name, place, script) as grown:
            grown(turns)
        ratio = files_in(place) / payload
        figures.append(Figure(f"growth.{name[5:]}", f"files of {words} at 2 KB a turn", ratio, "×"))
    return figures


@contextmanager
def _grown(peers: Peers, name: str, place: Path, script: Path) -> Iterator[Any]:
    place.mkdir()
    with peers.start(name, place, "--script", str(script)) as peer:
        yield peer.does("growth").work


def write_script(path: Path, turns: int, turn_bytes: int) -> int:
    """The same conversation for another process: one line a turn, with the whole history; the distinct payload."""
    history, said = opening(), dict[bytes, int]()
    with path.open("w", encoding="utf-8") as file:
        for turn in dialogue(turns, turn_bytes):
            history = turn.after(history)
            file.write(
                json.dumps({"messages": history, "answer": turn.answered, "new": turn.messages}) + "\n"
            )
            for message in (*history, turn.answered):
                text = canonical.encode(message)
                said[text] = len(text)
            history.append(turn.answered)
    return sum(said.values()) + len(canonical.encode(tools()))
