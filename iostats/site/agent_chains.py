"""
The chain of an agent's messages: each says something only with all that came before.

One that does not follow is refused, and the agent begins a new chain with a full sweep.  The
messages of both kinds, of job_stats and of clients, are in one chain.
"""

from __future__ import annotations

from typing import Any, Optional

import msgspec

from iostats.wire.messages.clients import ReceivedClients

from iostats.wire.relays import is_relayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Union

    from iostats.wire.messages.sweep import ReceivedSweep

UP_S = 5.0                      # some pauses and so long after its last message, an agent is not up
_MOST_PAST = 16                 # runs of an agent that are known not to come again


class AgentState(msgspec.Struct):
    """
    What is known of one storage server's agent.

    Attributes:
        run, seq: of its last message: the chain, and the place in it.
        past: runs before this one: a copy of theirs may be on its way.
        slot: of its last whole sweep; `targets`: that sweep's.
        every: seconds from one sweep to the next.
        clock_ahead_s: its clock less the site's, when its last message was sent.
        heard: when that came.
        first: the first sweep of which something came.
    """

    run: str = ""
    seq: int = 0
    past: list[str] = []
    slot: float = 0.0
    every: float = 60.0
    clock_ahead_s: float = 0.0
    heard: float = 0.0
    first: float = 0.0
    targets: list[tuple[str, str]] = []

    def has_sent(self, slot: float) -> bool:
        """Whether its part of the sweep of `slot` has come; a longer pause has fewer sweeps."""
        return self.slot >= slot // self.every * self.every


agent_of = msgspec.json.Decoder(AgentState).decode


def those_up(agents: Mapping[str, AgentState],
             now: float) -> tuple[list[AgentState], list[AgentState]]:
    """
    ([those that are up], [those of them that set the pace]) of {node: AgentState}.

    A relay's storage servers set the pace where there are none of our own.
    """
    up = {node: agent for node, agent in agents.items()
          if now - agent.heard < 3 * agent.every + UP_S and agent.slot}
    own = [agent for node, agent in up.items() if not is_relayed(node)]
    return list(up.values()), own or list(up.values())


def following(agent: AgentState, taken: Union[ReceivedSweep, ReceivedClients], node: str,
              now: float) -> tuple[Optional[AgentState], dict[str, Any]]:
    """
    (what is known of the agent with this message, {}), or (None, the answer to a message that is
    not to be counted).
    """
    message = taken.head
    if message.run == agent.run and message.seq <= agent.seq:
        return None, {"taken": True, "why": "this message was taken before"}
    follows = message.run == agent.run and message.seq == agent.seq + 1
    # The first message of a past run is a copy that was late: it would turn the chain back.
    begins = message.full and message.seq == 1 and message.run not in agent.past
    if not follows and not begins:
        return None, {"taken": False, "want": "full",
                      "why": f"another agent sends as {node!r}: stop one of them, or name it by "
                             f"--node" if message.run in agent.past else
                             f"expected message {agent.seq + 1} of run {agent.run or '-'}, got "
                             f"{message.seq} of run {message.run}"}
    return msgspec.structs.replace(
        agent, run=message.run, seq=message.seq, every=message.every, heard=now,
        clock_ahead_s=taken.clock_ahead_s,
        first=agent.first if agent.run or agent.past else min(float(message.slot), now),
        past=agent.past if follows else [*agent.past, agent.run][-_MOST_PAST:],
        targets=agent.targets if follows else []), {}


def targets_of(taken: Union[ReceivedSweep, ReceivedClients]) -> list[tuple[str, str]]:
    """The targets that a message tells of."""
    if isinstance(taken, ReceivedClients):
        return [(block.head.file_system, target) for block, _ in taken.blocks
                for target in block.head.targets]
    return [(block.head.file_system, block.head.target) for block, _ in taken.blocks]
