"""The play: both cases are killed, taken over and, where nobody can be asked, settled; then everything is compared."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.demo.agent import ASKED, MUTE
from counterfoil.demo.cast import Cast, Player
from counterfoil.demo.scene import Scene
from counterfoil.demo.sides import Sides, both_sides
from counterfoil.demo.story import Story, typed
from counterfoil.errors import InputError

CONFIGURATION: Final = 'ledger = "ledger"\napp = "counterfoil.demo.agent"\n'

AGREED: Final = "provider and ledger agree on exactly one refund"


def play(directory: Path | None, *, keep: bool, as_json: bool) -> int:
    """See :func:`counterfoil.demo.main`."""
    made = directory is None
    place = _place(directory)
    story = Story(quiet=as_json)
    try:
        with Cast(place) as cast:
            result = _Play(cast, story).acts()
    finally:
        if made and not keep:
            shutil.rmtree(place, ignore_errors=True)
    if as_json:
        print(json.dumps(result, ensure_ascii=True))
    return 0 if result["ok"] else 1


def _place(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="counterfoil-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise InputError(
            f"the demo needs an empty directory, and {directory} is not",
            hint="name a new one, or leave --directory out",
        )
    return directory


class _Play:
    """One performance."""

    def __init__(self, cast: Cast, story: Story) -> None:
        self._cast = cast
        self._story = story
        self._asked = Scene(ASKED, "payment-provider", mute=False)
        self._mute = Scene(MUTE, "old-bank", mute=True)
        self._scenes = (self._asked, self._mute)

    def acts(self) -> dict[str, Any]:
        """The whole play; what came of it."""
        say = self._story.say
        say("Counterfoil: a refund survives a SIGKILL at the dangerous moment.")
        say(f"Everything happens on this machine, in {self._cast.directory}")
        (self._cast.directory / "counterfoil.toml").write_text(CONFIGURATION, "utf-8")
        counterfoil.open(self._cast.ledger).close()
        self._two_kills()
        shown = self._show(self._asked)
        self._take_over()
        shown = self._show(self._asked) and shown
        self._settle()
        shown = self._show(self._mute) and shown
        return self._compare(shown)

    # ---- the acts ----

    def _two_kills(self) -> None:
        story = self._story
        story.scene("Two customers complain, two workers answer, and both are killed")
        providers = [scene.open_provider(self._cast) for scene in self._scenes]
        for scene, provider in zip(self._scenes, providers, strict=True):
            ways = (
                "pays whatever it is sent and cannot be asked" if scene.mute else "has keys and can be asked"
            )
            story.say(f"   {scene.provider}, process {provider.pid} at {scene.address}, {ways}")
        workers = [scene.start(self._cast) for scene in self._scenes]
        for scene, provider, worker in zip(self._scenes, providers, workers, strict=True):
            story.say(f"\n   worker {worker.pid} answers {scene.case.name}: {scene.case.message}")
            scene.kill_at_the_dangerous_moment(provider, worker)
            receipt = scene.receipt
            story.say(
                f"   {scene.provider} has booked {receipt['id']}, {receipt['amount']} under key {receipt['key']};"
                f" before its answer went out,\n   worker {worker.pid} was killed with SIGKILL"
            )
        story.say("\nThe money has moved and nobody here was told. This is what the ledger says:\n")

    def _take_over(self) -> None:
        story = self._story
        story.scene("New workers take over")
        workers = [scene.take_over(self._cast) for scene in self._scenes]
        story.say(
            "   A dead worker's lease protects its conversation until it runs out: it might only be slow."
        )
        story.wait(
            "waiting for the two leases", self._lease_left_s, lambda tick_s: _all_spoke(workers, tick_s)
        )
        for scene, worker in zip(self._scenes, workers, strict=True):
            scene.see_end(worker)
            came = f"ended as {scene.terminal}" if scene.terminal else f"waits in review {scene.review_id}"
            story.say(f"   worker {worker.pid} went on with {scene.case.name}: the run {came}")
        story.say(f"\n{self._asked.provider} was asked and answered, so nothing was sent twice:\n")

    def _settle(self) -> None:
        story, scene = self._story, self._mute
        story.scene(f"A person settles what {scene.provider} cannot be asked")
        self._story.run("review", "ls", "--ledger", str(self._cast.ledger))
        reason = scene.settle(self._cast)
        story.say(
            f"\n   {scene.settled_by} looks into the bank's own book and settles it: succeeded, because {reason}"
        )
        worker = scene.take_over(self._cast)
        scene.see_end(worker)
        story.say(
            f"   worker {worker.pid} went on with {scene.case.name}: the run ended as {scene.terminal}\n"
        )

    def _compare(self, shown: bool) -> dict[str, Any]:
        story = self._story
        story.scene("Both sides are compared, and the ledger is verified")
        with counterfoil.open(self._cast.ledger, read_only=True) as ledger:
            sides = [
                both_sides(ledger, scene.case, self._cast.book(scene.provider)) for scene in self._scenes
            ]
        for scene, side in zip(self._scenes, sides, strict=True):
            self._say_sides(scene, side)
        verified = story.run("verify", "--ledger", str(self._cast.ledger))
        ended = all(scene.terminal == "success" for scene in self._scenes)
        ok = all(side.agree for side in sides) and verified == 0 and ended and shown
        self._say_end(ok)
        return {
            "ok": ok,
            "directory": str(self._cast.directory),
            "ledger": str(self._cast.ledger),
            "verify_exit": verified,
            "shown": shown,
            "cases": [_told(scene, side) for scene, side in zip(self._scenes, sides, strict=True)],
        }

    # ---- telling ----

    def _show(self, scene: Scene) -> bool:
        return self._story.run("show", scene.case.name, "--ledger", str(self._cast.ledger)) == 0

    def _lease_left_s(self) -> float:
        left = 0.0
        with counterfoil.open(self._cast.ledger, read_only=True) as ledger:
            for scene in self._scenes:
                head = ledger.store.head(ledger.stream_of(scene.case.name))
                if head is not None and head.lease is not None:
                    left = max(left, (head.lease.expires_at_ms - ledger.store.now_ms()) / 1000)
        return left

    def _say_sides(self, scene: Scene, sides: Sides) -> None:
        rows = [
            (f"book of {scene.provider}", sides.booked + sides.messages_booked),
            ("ledger", sides.recorded + sides.messages_recorded),
        ]
        self._story.say(f"   {scene.case.name}: {AGREED if sides.agree else 'the two sides differ'}")
        for name, found in rows:
            for done in found:
                self._story.say(f"      {name:<24} {done}")
        self._story.say()

    def _say_end(self, ok: bool) -> None:
        ledger = str(self._cast.ledger)
        say = self._story.say
        say("\nLook further:\n")
        for words in (
            ("show", self._asked.case.name, "--events"),
            ("show", self._mute.case.name),
            ("ls", "effects"),
            ("verify",),
        ):
            say(f"   {typed(*words, '--ledger', ledger)}")
        say(f"\nIn each of the two cases {AGREED}." if ok else "\nThe demo FAILED: see above.")


def _all_spoke(workers: list[Player], within_s: float) -> bool:
    return all(worker.has_spoken(within_s) for worker in workers)


def _told(scene: Scene, sides: Sides) -> dict[str, Any]:
    return {
        "case": scene.case.name,
        "run": scene.run_id,
        "terminal": scene.terminal,
        "workers": scene.workers,
        "review": scene.review_id,
        "settled_by": scene.settled_by,
        **sides.to_json(),
    }
