"""Transcripts: comments, and commands each followed by `----`, by what was heard, and by an empty line.

Several commands before one `----` are played one after the other.
"""

from __future__ import annotations

from collections.abc import Callable


def played_by(play: Callable[[str], list[str]], text: str) -> str:
    """Return the same transcript with the present output. `play` runs one command and returns its output."""
    out: list[str] = []
    commands: list[str] = []
    heard = False
    for line in text.splitlines():
        if line == "----":
            out += [line, *(said for command in commands for said in play(command))]
            commands, heard = [], True
        elif not (heard and line):
            heard = False
            out.append(line)
            if line and not line.startswith("#"):
                commands.append(line)
    assert not commands, f"no ---- after {commands}"
    return "\n".join(out).rstrip("\n") + "\n"
