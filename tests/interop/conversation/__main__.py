"""Play some scenes, print what was said and where the brokers differ: `python -m tests.interop.conversation offsets`.

Scenes are chosen by parts of their names; without any all are played, and only differences are printed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from tests.interop.conversation import scenes
from tests.interop.conversation.expected import EXPECTED
from tests.interop.conversation.play import differences, play
from tests.interop.conversation.settings import KAFKAS_OWN, PARTS
from tests.interop.conversation.stage import SCENES, Scene
from tests.interop.kafka import running_kafka
from tests.interop.kohort import running_kohort


async def show(part: str, chosen: Mapping[str, Scene], *, spoken: bool) -> None:
    """Play one part's chosen scenes."""
    settings = PARTS[part]
    ours = {name.replace(".", "_"): value for name, value in settings.items()}
    # A scene awaits each answer before it goes on, and its members change connections as they like.
    ours |= {"group_heartbeat_hold_ms": "0", "group_disconnect_grace_ms": "0"}
    with running_kafka({**settings, **KAFKAS_OWN}) as kafka, running_kohort(**ours) as kohort:
        told = await asyncio.gather(play(kafka.bootstrap, chosen), play(kohort.bootstrap, chosen))
    if spoken:
        for scene, exchanges in told[0].items():
            for one in exchanges:
                print(f"{scene}: {one.name}\n  {one.asked}\n  {one.answer}")
    for difference in differences(*told):
        explained = any(row.covers(difference) for row in EXPECTED)
        if spoken or not explained:
            print(difference, "(expected)" if explained else "")
    print(f"{part}: {sum(map(len, told[0].values()))} exchanges")


if __name__ == "__main__":
    assert scenes.__all__, "imported for what it registers"
    wanted = sys.argv[1:]
    for name, all_of_part in SCENES.items():
        some = {scene: play for scene, play in all_of_part.items() if not wanted or any(w in scene for w in wanted)}
        if some:
            asyncio.run(show(name, some, spoken=bool(wanted)))
