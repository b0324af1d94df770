"""Play some scenes, print what was said and where the brokers differ: `python -m tests.interop.conversation offsets`.

Scenes are chosen by parts of their names; without any all are played, and only differences are printed. With
`--defaults`, Kohort holds heartbeats as it does by default.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from tests.interop.conversation import scenes
from tests.interop.conversation.expected import AT_DEFAULTS, EXPECTED
from tests.interop.conversation.play import differences, play
from tests.interop.conversation.settings import ADMINS, PARTS, PROMPT_OFF, kafka_of
from tests.interop.conversation.stage import SCENES, Scene
from tests.interop.kohort import running_kohort


async def show(part: str, chosen: Mapping[str, Scene], kohorts_own: Mapping[str, str], *, spoken: bool) -> None:
    """Play one part's chosen scenes."""
    settings = PARTS[part]
    ours = {name.replace(".", "_"): value for name, value in {**settings, **kohorts_own}.items()}
    expected = EXPECTED if kohorts_own else EXPECTED + AT_DEFAULTS
    with kafka_of(part) as kafka, running_kohort(**ours) as kohort:
        told = await asyncio.gather(*(play(one.bootstrap, chosen, ADMINS.get(part, "")) for one in (kafka, kohort)))
    if spoken:
        for scene, exchanges in told[0].items():
            for exchange in exchanges:
                print(f"{scene}: {exchange.name}\n  {exchange.asked}\n  {exchange.answer}")
    for difference in differences(*told):
        explained = any(row.covers(difference) for row in expected)
        if spoken or not explained:
            print(difference, "(expected)" if explained else "")
    print(f"{part}: {sum(map(len, told[0].values()))} exchanges")


if __name__ == "__main__":
    assert scenes.__all__, "imported for what it registers"
    wanted = [word for word in sys.argv[1:] if word != "--defaults"]
    own = {} if "--defaults" in sys.argv else PROMPT_OFF
    for name, all_of_part in SCENES.items():
        some = {scene: play for scene, play in all_of_part.items() if not wanted or any(w in scene for w in wanted)}
        if some:
            asyncio.run(show(name, some, own, spoken=bool(wanted)))
