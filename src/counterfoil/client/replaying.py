"""Running a recorded run's code again on its record, from a ledger handle (DESIGN 6)."""

from __future__ import annotations

from counterfoil.client.handle import Handle
from counterfoil.errors import AgentNotFound, RunBusy, RunNotFound
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read
from counterfoil.journal.fold import json_hash
from counterfoil.replay.asked import asked_of
from counterfoil.replay.recorded import NoChildren, ReplayRun, RunReplay, Way, check_no_loop, replay_run
from counterfoil.runtime.agents import find_agent
from counterfoil.runtime.block import RunHost
from counterfoil.runtime.children.nursery import Nursery
from counterfoil.runtime.rehearsals import refuse_rehearsal
from counterfoil.runtime.rows import RUNS
from counterfoil.runtime.spec import make_spec
from counterfoil.runtime.state import FINISHED


class Replaying(Handle):
    """Replays of a ledger's runs."""

    def replay(self, run_id: str) -> RunReplay:
        """Run the registered agent of an ended run again on its record, and say whether it behaves the same.

        Answers of models and results of tools come from the record, nothing is called and nothing is recorded; at the
        first thing that the record does not hold the code is stopped. What the code does past the run (opening a file,
        say) is done again. Raises ``RunNotFound``, ``RunBusy`` for a run that is still open, ``RehearsalOnly`` for a
        rehearsal, whose calls were answered from another record, and ``AgentNotFound`` where its agent is not registered.
        """
        row = self.ports.store.get(RUNS, (run_id,))
        if row is None or row["tenant"] != self.tenant:
            raise RunNotFound(f"there is no run {run_id} in {self.place}", run_id=run_id)
        drive(refuse_rehearsal(run_id, "replayed"), self.ports)
        if row["state"] != FINISHED:
            raise RunBusy(f"run {run_id} has not ended", hint="replay it when it has", run_id=run_id)
        name = str(row["agent"])
        agent = find_agent(name)
        if agent is None:
            raise AgentNotFound(
                f"agent {name} of run {run_id} is not registered here",
                run_id=run_id,
                agent=name,
            )
        check_no_loop(agent)
        spec = make_spec(agent.name, agent_version=agent.version, run_id=run_id)
        # The record has the children that there are: nobody is asked to carry one out.
        nursery = Nursery(NoChildren(), 0)
        host = RunHost(self.ports, self.registry, self._heartbeat, self.owner, nursery=nursery)
        return replay_run(ReplayRun(host, spec), agent, self._recorded(str(row["stream_id"]), run_id))

    def _recorded(self, stream_id: str, run_id: str) -> Way:
        # Of all types: those of the application are its own.
        query = Events(stream_id, run_id=run_id, lightly=True)
        events = drive(_read(query), self.ports)
        ends = [event for event in events if event.type == "run.finished"]
        # Raises where it cannot be had: an answer that is not at hand is not a different one.
        output = ends[-1].content.get("output") if ends and ends[-1].content_state != "none" else None
        terminal = ends[-1].data["terminal"] if ends else "runtime_failure"
        found = asked_of(events)
        return Way(found.asked, terminal, json_hash(output), found.perhaps)


def _read(query: Events) -> Flow[list[Event]]:
    events: list[Event] = yield Read(query)
    return events
