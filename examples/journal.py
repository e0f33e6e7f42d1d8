"""A plain agent loop, and the turn journal beside it: five lines, marked with a number, switch it on.

    python examples/journal.py

The agent, its tool and its model are whatever you have: here a loop of ten lines and a model that repeats two decisions.
Afterwards the file turns.db holds what the turn did, as digests: `counterfoil turns --journal turns.db` lists it.
"""

from __future__ import annotations

from counterfoil.journal import TurnJournals, check_chain, open_journal  # 1

journals = TurnJournals(open_journal("turns.db"))  # 2


def look_up(order: str) -> dict[str, str]:
    """The tool."""
    return {"order": order, "state": "on its way"}


def model(told: object) -> dict[str, str]:
    """The model: it wants the tool first, and then it answers."""
    if isinstance(told, str):
        return {"tool": "look_up", "order": "O-1042"}
    return {"answer": f"Your order is {told['state']}."}


def agent(message: str, tools: dict) -> str:
    """The loop."""
    told: object = message
    while True:
        wanted = model(told)
        if "answer" in wanted:
            return wanted["answer"]
        told = tools[wanted["tool"]](wanted["order"])


def serve(session: str, message: str) -> str:
    """One turn."""
    with journals.begin("support", session=session, message=message) as turn:  # 3
        answer = agent(message, {"look_up": turn.tool(look_up)})  # 4
        return turn.answer(answer)  # 5


if __name__ == "__main__":
    print(serve("case-8472", "Where is my order O-1042?"))
    journals.flush()
    for info in journals.journal.turns("default"):
        events = journals.journal.events("default", info.turn_id)
        print(info.status, [event.type for event in events], check_chain(events).intact)
