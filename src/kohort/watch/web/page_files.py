"""Files of the page, read once at the start. No path of a request ever reaches the file system."""

from importlib.resources import files
from typing import NamedTuple

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
_MISSING = b"<!doctype html><title>Kohort</title><p>The page is not part of this installation; see /api/groups.</p>"


class PageFile(NamedTuple):
    """One file."""

    content: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """Return the files by name. `INDEX` is always among them."""
    found = {INDEX: PageFile(_MISSING, TYPES["html"])}
    folder = files("kohort.watch.web") / "page"
    for entry in folder.iterdir() if folder.is_dir() else ():
        media_type = TYPES.get(entry.name.rpartition(".")[2])
        if entry.is_file() and media_type is not None:
            found[entry.name] = PageFile(entry.read_bytes(), media_type)
    return found
