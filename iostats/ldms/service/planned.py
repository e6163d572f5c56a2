"""
What the service would do now: each daemon is asked, and none is told anything.
"""

from __future__ import annotations

import asyncio

from iostats.base.errors import one_line
from iostats.ldms.service.service import Service, Settings
from iostats.ldms.statements.statement import as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import Description

_LOOK_S = 0.05
MOST_DAEMONS, MOST_COMMANDS = 50, 20


async def heard_of_all(service: Service) -> None:
    """Wait until each daemon has answered, or has not within its time."""
    while service.unheard():
        await asyncio.sleep(_LOOK_S)


async def plan(description: Description, settings: Settings) -> Service:
    """A service that has asked all daemons once, and told them nothing."""
    service = Service(may_command=lambda group: False, settings=settings)
    service.fleet.waits = False
    service.describe(description, None)
    stop = asyncio.Event()
    running = asyncio.ensure_future(service.run(stop))
    await asyncio.sleep(0)
    await heard_of_all(service)
    stop.set()
    await running
    return service


def plan_lines(service: Service, with_all: bool) -> list[str]:
    """
    The commands for each daemon in their order, and why; of each up to MOST_COMMANDS, and of up to
    MOST_DAEMONS daemons, unless `with_all`.  Those that only ask are left out.
    """
    fleet = service.fleet
    found: list[list[str]] = []
    commands = reached = 0
    for name, heard in fleet.daemons.items():
        if not heard.is_up:
            found.append([f"{name}: {heard.state}: {one_line(heard.why)}"])
            continue
        reached += 1
        steps = [step for _, step in fleet.steps(name) if not step.is_question]
        commands += len(steps)
        if steps:
            shown = steps if with_all else steps[:MOST_COMMANDS]
            lines = [f"{name}: {len(steps)} command{'s' * (len(steps) != 1)}"]
            for step in shown:
                producer = dict(step.statement.attributes).get("name") or ""
                other = fleet.holder(producer, name) \
                    if step.statement.verb == "prdcr_start" else ""
                lines.append(one_line(f"    {as_line(step.statement)}   # {step.why}"
                                      + (f", when {other} has stopped it" if other else "")))
            if len(shown) < len(steps):
                lines.append(f"    and {len(steps) - len(shown)} more: --all")
            found.append(lines)
    shown_daemons = found if with_all else found[:MOST_DAEMONS]
    lines = [line for some in shown_daemons for line in some]
    if len(shown_daemons) < len(found):
        lines.append(f"and {len(found) - len(shown_daemons)} daemons more: --all")
    lines.append(f"{reached} of {len(fleet.daemons)} daemons answered; "
                 + (f"{commands} command{'s' * (commands != 1)} to do" if commands
                    else "nothing to do"))
    return lines
