"""
The chain of an agent's messages: each one is valid only after all that came before.

A message that does not follow is refused, and the agent begins a new chain with a full sweep.  The
messages of both kinds, of job_stats and of clients, are in one chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional, Union

import msgspec

from iostats.wire.messages.clients import ReceivedClients
from iostats.wire.messages.sweep import ReceivedSweep
from iostats.wire.relays import is_relayed

UP_S = 5.0                      # an agent is down some pauses, and so long, after its last message
_MAX_PAST_RUNS = 16             # earlier runs of an agent, whose messages are refused


class AgentState(msgspec.Struct, rename={"every_s": "every"}):
    """The state of one storage server's agent."""

    # run, seq: of its last message: the chain, and the position in it
    run: str = ""
    seq: int = 0
    past: list[str] = []        # runs before this one: late copies of their messages may arrive
    slot: float = 0.0           # of its last whole sweep
    every_s: float = 60.0       # seconds from one sweep to the next
    clock_ahead_s: float = 0.0  # its clock less the site's, when its last message was sent
    received_at: float = 0.0    # when that message arrived
    first: float = 0.0          # the first sweep of which a message arrived
    targets: list[tuple[str, str]] = []  # that sweep's

    def has_sent(self, slot: float) -> bool:
        """Whether the agent's part of the sweep of `slot` has arrived, or none is due in it."""
        return self.slot >= slot // self.every_s * self.every_s


decode_agent = msgspec.json.Decoder(AgentState).decode


def split_agents_by_state(agents: Mapping[str, AgentState],
                          now: float) -> tuple[list[AgentState], list[AgentState]]:
    """
    Return ([agents that are up], [those of them that set the pace]) of {node: AgentState}.

    A relay's storage servers set the pace if there are none of our own.
    """
    up = {node: agent for node, agent in agents.items()
          if now - agent.received_at < 3 * agent.every_s + UP_S and agent.slot}
    own = [agent for node, agent in up.items() if not is_relayed(node)]
    return list(up.values()), own or list(up.values())


def follow_chain(agent: AgentState, received: Union[ReceivedSweep, ReceivedClients], node: str,
                 now: float) -> tuple[Optional[AgentState], dict[str, object]]:
    """
    Return (the agent's state after this message, {}), or (None, the answer) if the message must not
    be counted.
    """
    message = received.head
    if message.run == agent.run and message.seq <= agent.seq:
        return None, {"taken": True, "why": "this message was taken before"}
    follows = message.run == agent.run and message.seq == agent.seq + 1
    # The first message of a past run is a late copy: it would reset the chain.
    begins = message.full and message.seq == 1 and message.run not in agent.past
    if not follows and not begins:
        return None, {"taken": False, "want": "full",
                      "why": f"another agent sends as {node!r}: stop one of them, or name it by "
                             f"--node" if message.run in agent.past else
                             f"expected message {agent.seq + 1} of run {agent.run or '-'}, got "
                             f"{message.seq} of run {message.run}"}
    return msgspec.structs.replace(
        agent, run=message.run, seq=message.seq, every_s=message.every_s, received_at=now,
        clock_ahead_s=received.clock_ahead_s,
        first=agent.first if agent.run or agent.past else min(float(message.slot), now),
        past=agent.past if follows else [*agent.past, agent.run][-_MAX_PAST_RUNS:],
        targets=agent.targets if follows else []), {}


def list_targets(received: Union[ReceivedSweep, ReceivedClients]) -> list[tuple[str, str]]:
    """Return [(file system, target)] of a message's blocks."""
    if isinstance(received, ReceivedClients):
        return [(block.head.file_system, target) for block, _ in received.blocks
                for target in block.head.targets]
    return [(block.head.file_system, block.head.target) for block, _ in received.blocks]
