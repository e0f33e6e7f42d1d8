"""Where turns begin: the journal of an application with its settings, and the no-op while it is off (seed 000)."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from counterfoil.core.ids import RANDOM_BITS, make_id
from counterfoil.core.turn import clean_summary
from counterfoil.errors import ConfigInvalid, InvalidForm
from counterfoil.journal.contract import TurnJournal
from counterfoil.journal.digests import result_digest, session_digest
from counterfoil.journal.event import TurnNote
from counterfoil.journal.markers import ResultMarkers
from counterfoil.journal.off import NO_TURN
from counterfoil.journal.recorder import Decided, TurnPlace, TurnRecorder, current_turn
from counterfoil.journal.redaction import CONTROLS
from counterfoil.journal.settings import JournalSettings
from counterfoil.journal.summary import Own, summary
from counterfoil.journal.tenant import current_tenant
from counterfoil.journal.writer import CAPACITY, FLUSH_S, JournalWriter, report

TURN_HEADER: Final = "X-Journal-Turn-Id"
"""The header of a chat response that says under which id its turn is found."""

EXPOSED_HEADERS: Final = (TURN_HEADER,)
"""What a browser's page may read of a response from elsewhere (Access-Control-Expose-Headers)."""

AGENT_CHARACTERS_MAX: Final = 200
"""Characters of an agent's name."""

MISSING: Final = "the turn journal is switched on and no journal is installed"
ABANDONED: Final = "error:abandoned"
"""The status of a turn that stayed open for so long that nobody is at it any more."""

log: logging.Logger = logging.getLogger("counterfoil.journal")


def system_now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class TurnJournals:
    """Begins turns and writes them into one journal, from a queue and a thread of its own unless ``mode`` says otherwise.

    Raises ``InvalidForm`` for what is no journal, mode, capacity or key. ``session_key`` makes the digests of sessions unguessable. ``synchronous`` waits for each event to be written, a
    quarter of a second at most. Thread-safe; after a fork the child goes on with a queue of its own.
    """

    def __init__(
        self,
        journal: TurnJournal | None,
        settings: JournalSettings | None = None,
        *,
        markers: ResultMarkers | None = None,
        mode: Literal["queued", "synchronous"] = "queued",
        capacity: int = CAPACITY,
        session_key: bytes = b"",
        now_ms: Callable[[], int] = system_now_ms,
    ) -> None:
        _check_made(journal, settings, markers, mode, capacity, session_key)
        self.settings: JournalSettings = settings or JournalSettings(enabled=True)
        self.journal: TurnJournal | None = journal
        self.markers: ResultMarkers = markers or ResultMarkers()
        self.writer: JournalWriter | None = None
        self._session_key = session_key
        # Whole milliseconds are what a chain holds: a clock of somebody's own may count in fractions.
        self._now_ms = now_ms if now_ms is system_now_ms else lambda: int(now_ms())
        self._live: WeakValueDictionary[str, TurnRecorder] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._not_begun = 0
        if journal is not None:
            self.writer = JournalWriter(journal, capacity=capacity, synchronous=mode == "synchronous")

    # ---- starting ----

    def check_start(self) -> None:
        """To be called when the application starts: switched on without a journal is an ERROR in the log.

        With ``strict`` it fails the start: raises ``ConfigInvalid``.
        """
        check_installed(self.settings, installed=self.journal is not None)

    # ---- turns ----

    def begin(
        self,
        agent: str,
        *,
        message: Any = None,
        session: str | None = None,
        decided: Mapping[str, Decided] | None = None,
    ) -> TurnRecorder:
        """A turn of this agent with its INTAKE; a no-op while the journal is off, or when it cannot be begun.

        ``decided`` are approval requests of an earlier turn with what became of them: their events come first. Inside
        another turn's block, a tool call of it or not, this is a sub-agent's, which names its parent. Without ``session`` it has one of
        its own that nothing else shares.
        """
        if not self.settings.enabled or self.writer is None:
            return NO_TURN
        try:
            turn = self._begin(self.writer, agent, message, session)
            for request, outcome in (decided or {}).items():
                turn.approval_decided(request, outcome)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, no turn may feel it
            report("a turn could not be journaled", error)
            with self._lock:
                self._not_begun += 1
            return NO_TURN
        return turn

    def _begin(self, writer: JournalWriter, agent: str, message: Any, session: str | None) -> TurnRecorder:
        now_ms = self._now_ms()
        turn_id = make_id("trn", now_ms, secrets.randbits(RANDOM_BITS))
        place = TurnPlace(
            turn_id=turn_id,
            agent_id=agent_name(agent),
            tenant=current_tenant(),
            session_hash=self.session_hash(turn_id if session in (None, "") else str(session)),
            writer=writer,
            markers=self.markers,
            now_ms=self._now_ms,
        )
        turn = self._live[turn_id] = TurnRecorder(place)
        outer = current_turn()
        turn.intake(message, parent=None if outer is None else outer.turn_id)
        return turn

    def session_hash(self, session: str) -> str:
        """The digest under which the turns of a session are found."""
        return session_digest(session, self._session_key)

    def headers(self, turn: TurnRecorder) -> dict[str, str]:
        """The headers of a response that say which turn it was; none while the journal is off."""
        return {TURN_HEADER: turn.turn_id} if turn.enabled else {}

    def abandon(self, older_than_ms: int, *, limit: int | None = None) -> list[str]:
        """End turns that a crash left open and that nothing was added to for so long; their ids.

        Each gets a COMMIT with ``error:abandoned``. If its own comes later after all, that one is its status,
        and says ``late=1`` where this process began the turn.
        """
        if self.journal is None:
            return []
        now_ms = self._now_ms()
        found = self.journal.open_turns(
            now_ms - older_than_ms, limit=self.settings.max_list if limit is None else limit
        )
        return [last.turn_id for last in found if self._abandon(self.journal, last, now_ms)]

    def _abandon(self, journal: TurnJournal, last: TurnNote, now_ms: int) -> bool:
        missing = 0 if self.writer is None else self.writer.take_missing(last.turn_id)
        if not journal.end_open(_abandoned(last, now_ms, missing)):
            return False
        turn = self._live.get(last.turn_id)
        if turn is not None:
            turn.abandoned = True
        return True

    # ---- ending ----

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until what was handed over is written; False when the time was over first."""
        return self.writer is None or self.writer.flush(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> bool:
        """Write what waits and close the journal; False when the time was over first. Also done when the process ends."""
        return self.writer is None or self.writer.close(timeout_s)

    @property
    def lost(self) -> int:
        """Events that could not be journaled, of all turns; a turn that could not be begun counts as one."""
        return self._not_begun + (0 if self.writer is None else self.writer.lost)


def _check_made(
    journal: object, settings: object, markers: object, mode: object, capacity: object, session_key: object
) -> None:
    """What a newcomer gets wrong is said at once: later, nothing may raise. Raises ``InvalidForm``."""
    wrong = [
        (
            "journal",
            "a journal, as counterfoil.journal.open_journal(place) gives it",
            journal is None or callable(getattr(journal, "append", None)),
        ),
        ("settings", "JournalSettings", settings is None or isinstance(settings, JournalSettings)),
        ("markers", "ResultMarkers", markers is None or callable(getattr(markers, "find", None))),
        ("mode", "queued or synchronous", mode in ("queued", "synchronous")),
        ("capacity", "a whole number from 0 on", type(capacity) is int and capacity >= 0),
        ("session_key", "bytes", isinstance(session_key, bytes)),
    ]
    for name, wanted, right in wrong:
        if not right:
            raise InvalidForm(f"the {name} of TurnJournals is {wanted}", argument=name)


def agent_name(agent: object) -> str:
    """An agent's name as a chain can hold it (FORMAT 17): ``|`` as ``/``, half pairs as U+FFFD, nothing for a terminal."""
    name = "unnamed" if agent is None else clean_summary(str(agent))
    name = CONTROLS.sub("", name).replace("|", "/")
    if len(name) <= AGENT_CHARACTERS_MAX:
        return name
    # It stands in every event: of one that is no name the beginning, and what tells it from another such one.
    return f"{name[:AGENT_CHARACTERS_MAX]}~{result_digest(name)}"


def _abandoned(last: TurnNote, now_ms: int, missing: int) -> TurnNote:
    return replace(
        last,
        type="COMMIT",
        summary=summary({"status": Own(ABANDONED)}, gap=missing),
        created_at_ms=now_ms,
        payload_hash=None,
    )


def check_installed(settings: JournalSettings, *, installed: bool) -> None:
    """The check at the start: raises ``ConfigInvalid`` when ``strict``, else logs an ERROR."""
    if installed or not settings.enabled:
        return
    if settings.strict:
        raise ConfigInvalid(
            MISSING,
            hint="install one with counterfoil.journal.install(...), or switch it off",
            member="enabled",
        )
    log.error("%s: nothing is recorded", MISSING)
