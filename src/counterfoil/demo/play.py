"""The play: two cases are killed, taken over and, where nobody can be asked, settled; a third is permitted and undone."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import counterfoil
from counterfoil.demo.agent import ASKED, LARGE, MUTE, PROVIDER_VARIABLE
from counterfoil.demo.cast import Cast
from counterfoil.demo.scene import Scene, demand, person
from counterfoil.demo.sides import Sides, both_sides
from counterfoil.demo.story import Story, typed
from counterfoil.errors import InputError

CONFIGURATION: Final = 'ledger = {ledger}\napp = "counterfoil.demo.agent"\n'

AGREED: Final = "provider and ledger agree on exactly one refund"


def play(directory: Path | None, ledger: str | None, *, keep: bool, as_json: bool) -> int:
    """See :func:`counterfoil.demo.main`."""
    made = directory is None
    place = _place(directory)
    story = Story(quiet=as_json)
    try:
        with Cast(place, ledger) as cast:
            result = _Play(cast, story, stays=keep or not made).acts()
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

    def __init__(self, cast: Cast, story: Story, *, stays: bool) -> None:
        self._cast = cast
        self._stays = stays
        self._story = story
        self._asked = Scene(cast, ASKED, "payment-provider", mute=False)
        self._mute = Scene(cast, MUTE, "old-bank", mute=True)
        self._large = Scene(cast, LARGE, "payment-provider", mute=False)
        self._commands_failed: list[str] = []

    def acts(self) -> dict[str, Any]:
        """The whole play; what came of it."""
        say = self._story.say
        say("Counterfoil: a refund survives a SIGKILL at the dangerous moment.")
        say(f"Everything happens on this machine, in {self._cast.directory}")
        # A JSON string without control characters is a TOML string too.
        configuration = CONFIGURATION.format(ledger=json.dumps(self._cast.ledger))
        (self._cast.directory / "counterfoil.toml").write_text(configuration, "utf-8")
        self._make_ledger()
        self._killed(self._asked, "has idempotency keys and can be asked")
        self._asked_and_answered()
        self._killed(self._mute, "pays whatever it is sent, and cannot be asked")
        self._reviewed()
        self._permitted()
        self._undone()
        return self._compare()

    def _make_ledger(self) -> None:
        with counterfoil.open(self._cast.ledger) as ledger:
            if not ledger.created:
                raise InputError(
                    f"the demo needs a ledger of its own, and {ledger.place} is one already",
                    hint="name another directory or schema, or leave --ledger out",
                )

    # ---- the acts ----

    def _killed(self, scene: Scene, ways: str) -> None:
        say = self._story.say
        self._story.scene(f"A worker is killed between the money and the answer: {scene.provider}")
        provider = scene.open_provider()
        say(f"   {scene.provider} is process {provider.pid} at {scene.address}; it {ways}")
        worker = scene.start()
        say(f"   worker {worker.pid} answers {scene.case.name}: {scene.case.message}")
        scene.kill_at_the_dangerous_moment(provider, worker)
        receipt = scene.receipt
        say(f"   {scene.provider} has booked {receipt['id']}: {receipt['amount']} under key {receipt['key']}")
        say(f"   worker {worker.pid} was killed with SIGKILL before the answer went out\n")
        say("The money has moved, and nobody here was told. The ledger says:\n")
        self._show(scene)

    def _asked_and_answered(self) -> None:
        story, scene = self._story, self._asked
        story.scene("A new worker asks the provider")
        worker = scene.take_over()
        story.say(f"   worker {worker.pid} was given the same message and went on with the same run")
        why = "waiting until the first call cannot be on its way any more"
        scene.see_end(worker, story.countdown(why, scene.left_s))
        demand(scene.terminal == "success", f"the run of {scene.case.name} ended as {scene.terminal}")
        story.say(
            f"   {scene.provider} was asked by the key, and nothing was sent twice; the run has ended\n"
        )
        self._show(scene)

    def _reviewed(self) -> None:
        story, scene = self._story, self._mute
        story.scene("Nobody can be asked, so a person decides")
        worker = scene.take_over()
        scene.see_end(worker)
        demand(scene.review_id is not None, f"the run of {scene.case.name} does not wait for a review")
        story.say(
            f"   worker {worker.pid} went on with the run; it sent nothing, and the run waits in review\n"
        )
        self._run("review", "ls")
        reason = scene.settle()
        story.say(f"\n   {scene.settled_by} looks into the bank's book and settles it as succeeded:")
        story.say(f"   {reason}")
        worker = scene.take_over()
        scene.see_end(worker)
        demand(scene.terminal == "success", f"the run of {scene.case.name} ended as {scene.terminal}")
        story.say(f"   worker {worker.pid} went on with the run, and it has ended\n")
        self._show(scene)

    def _permitted(self) -> None:
        story, scene = self._story, self._large
        story.scene("A refund that a person has to permit first")
        scene.ask_first(self._asked.address, self._asked.provider_pid)
        story.say(f"   worker {scene.workers[-1]} answers {scene.case.name}: {scene.case.message}")
        story.say("   a policy asks a person about more than 50; nothing was sent, and the run waits\n")
        assert scene.approval_id is not None
        self._run("approve", "grant", scene.approval_id, "--by", person(), "--comment", "the carrier lost it")
        worker = scene.take_over()
        scene.see_end(worker)
        demand(scene.terminal == "success", f"the run of {scene.case.name} ended as {scene.terminal}")
        story.say(
            f"\n   worker {worker.pid} went on with the run, used the permission once, and it has ended"
        )

    def _undone(self) -> None:
        story, scene = self._story, self._large
        story.scene("The blender has come after all, so the refund is undone, on record")
        reason = "the parcel was found"
        words = ("repair", "start", scene.effect_id(), "--by", person(), "--reason", reason)
        environment = {PROVIDER_VARIABLE: scene.address}
        self._run(*words, "--app", "counterfoil.demo.agent", environment=environment)
        story.say("\nNothing was overwritten: what was done and what undid it both stand.\n")
        self._show(scene)

    def _compare(self) -> dict[str, Any]:
        scenes = (self._asked, self._mute, self._large)
        self._story.scene("Both sides are compared, and the ledger is verified")
        with counterfoil.open(self._cast.ledger, read_only=True) as ledger:
            sides = [both_sides(ledger, scene.case, self._cast.book(scene.provider)) for scene in scenes]
        for scene, side in zip(scenes, sides, strict=True):
            self._say_sides(scene, side)
        self._run("verify")
        undone = [len(side.charges_booked) for side in sides]
        ok = all(side.agree for side in sides) and undone == [0, 0, 1] and not self._commands_failed
        self._say_end(ok)
        return {
            "ok": ok,
            "directory": str(self._cast.directory),
            "ledger": self._cast.ledger,
            "commands_failed": self._commands_failed,
            "cases": [_told(scene, side) for scene, side in zip(scenes, sides, strict=True)],
        }

    # ---- telling ----

    def _show(self, scene: Scene) -> None:
        self._run("show", scene.case.name)

    def _run(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """Run a command on the demo's ledger as a reader would; one that fails is a failure of the demo."""
        if self._story.run(*words, "--ledger", self._cast.ledger, environment=environment) != 0:
            self._commands_failed.append(words[0])

    def _say_sides(self, scene: Scene, sides: Sides) -> None:
        rows = [
            (f"book of {scene.provider}", sides.booked + sides.messages_booked + sides.charges_booked),
            ("ledger", sides.recorded + sides.messages_recorded + sides.charges_recorded),
        ]
        self._story.say(f"   {scene.case.name}: {AGREED if sides.agree else 'the two sides DIFFER'}")
        for name, found in rows:
            for done in found:
                self._story.say(f"      {name:<26} {done}")
        self._story.say()

    def _say_end(self, ok: bool) -> None:
        say = self._story.say
        if self._stays:
            say("\nLook further:\n")
            for words in (
                ("show", self._asked.case.name, "--events"),
                ("show", self._mute.case.name),
                ("show", self._large.case.name),
                ("ls", "effects"),
                ("verify",),
            ):
                say(f"   {typed(*words, '--ledger', self._cast.ledger)}")
        failed = "; ".join(f"`counterfoil {word}` failed" for word in self._commands_failed)
        say(
            f"\nIn all three cases, {AGREED}."
            if ok
            else f"\nThe demo FAILED. {failed or 'The two sides differ.'}"
        )


def _told(scene: Scene, sides: Sides) -> dict[str, Any]:
    return {
        "case": scene.case.name,
        "run": scene.run_id,
        "terminal": scene.terminal,
        "provider_pid": scene.provider_pid,
        "workers": scene.workers,
        "refund_was": scene.states,
        "review": scene.review_id,
        "settled_by": scene.settled_by,
        "approval": scene.approval_id,
        **sides.to_json(),
    }
