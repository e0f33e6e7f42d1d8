"""Inputs that are taken in without running anything: for workers, for a later time, or held by a person (DESIGN 6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from counterfoil.client.handle import Handle
from counterfoil.client.place import MEMORY
from counterfoil.core.event_types import DEFAULT_CLASS
from counterfoil.errors import AdmissionNotFound, InvalidForm
from counterfoil.flow.drafting import Person
from counterfoil.flow.drive import adrive, drive
from counterfoil.flow.requests import Flow
from counterfoil.runtime.events import WhileRunning, WhileSuspended
from counterfoil.runtime.keeping import Admitted, admission_row, defer_flow, keep_flow, let_in_flow
from counterfoil.runtime.spec import RunSpec, instant_ms, make_spec


class Admitting(Handle):
    """What becomes of inputs before they have a run."""

    def admit(
        self,
        agent: str,
        *,
        conversation: str | None = None,
        message: Any = None,
        dedupe: str | None = None,
        until: datetime | None = None,
        subject: str | None = None,
        title: str | None = None,
        classification: str = DEFAULT_CLASS,
        while_running: WhileRunning | None = None,
        while_suspended: WhileSuspended | None = None,
    ) -> Admitted:
        """Take an input in and run nothing: a worker starts it, at once or from ``until`` on, a time with a zone.

        The conversation's policies count, except that nothing is superseded: such an input waits in line. The same
        ``dedupe`` key again changes nothing and returns what has become of it. ``classification`` is that of the message
        and of the run that it gets. Raises ``AdmissionConflict`` or
        ``AdmissionRejected`` as :meth:`Ledger.run` does.

        >>> ledger = counterfoil.open(":memory:")
        >>> ledger.admit("greeter", conversation="hello", message="Ada").state
        'released'
        >>> [(ready.agent, ready.why) for ready in ledger.ready_inputs()]
        [('greeter', 'operator')]
        >>> ledger.close()
        """
        given = {"while_running": while_running, "while_suspended": while_suspended}
        spec = self._spec_of_input(
            agent,
            conversation,
            message,
            dedupe,
            subject=subject,
            title=title,
            classification=classification,
            **given,
        )
        return drive(keep_flow(self.ports, spec, self.owner, _until_ms(until)), self.ports)

    async def aadmit(
        self,
        agent: str,
        *,
        conversation: str | None = None,
        message: Any = None,
        dedupe: str | None = None,
        until: datetime | None = None,
        subject: str | None = None,
        title: str | None = None,
        classification: str = DEFAULT_CLASS,
        while_running: WhileRunning | None = None,
        while_suspended: WhileSuspended | None = None,
    ) -> Admitted:
        """As :meth:`admit`, for tasks."""
        given = {"while_running": while_running, "while_suspended": while_suspended}
        spec = self._spec_of_input(
            agent,
            conversation,
            message,
            dedupe,
            subject=subject,
            title=title,
            classification=classification,
            **given,
        )
        return await adrive(keep_flow(self.ports, spec, self.owner, _until_ms(until)), self.ports)

    def defer(self, admission_id: str, *, by: str, until: datetime | None = None) -> Admitted:
        """Have an input wait that has no run yet, as the named person ``by``: until a time, or until it is let in.

        Raises ``AdmissionNotFound``, or ``AdmissionTaken`` where it has a run, joined one, or was refused.
        """
        until_ms = _until_ms(until)
        return self._by(admission_id, by, lambda person: defer_flow(admission_id, person, until_ms))

    def let_in(self, admission_id: str, *, by: str) -> Admitted:
        """Let an input wait no more, as the named person ``by``: a worker starts it, or whoever asks. Raises as :meth:`defer`."""
        return self._by(admission_id, by, lambda person: let_in_flow(admission_id, person))

    def _spec_of_input(
        self, agent: str, conversation: str | None, message: Any, dedupe: str | None, **given: Any
    ) -> RunSpec:
        self.check_writable()
        place = None if self.place == MEMORY else self.place
        return make_spec(
            agent, conversation=conversation, message=message, dedupe=dedupe, place=place, **given
        )

    def _by(self, admission_id: str, by: str, flow: Any) -> Admitted:
        self.check_writable()
        if not by.strip():
            raise InvalidForm("by says who; it may not be empty", argument="by")
        row = drive(admission_row(admission_id), self.ports)
        if row["tenant"] != self.tenant:
            raise AdmissionNotFound(
                f"there is no input {admission_id} in {self.place}", admission_id=admission_id
            )
        person = Person(self.ports.subject_key(str(row["stream_id"]), by), by)
        asked: Flow[Admitted] = flow(person)
        return drive(asked, self.ports)


def _until_ms(until: datetime | None) -> int | None:
    return None if until is None else instant_ms("until", until)
