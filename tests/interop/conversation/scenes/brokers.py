"""ApiVersions, FindCoordinator, and requests that are none."""

from __future__ import annotations

from kohort.wire.codec import encode
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from tests.interop.conversation.stage import Stage, scene


@scene
async def api_versions(s: Stage) -> None:
    """ApiVersions in every version, and in unknown ones (KIP-511)."""
    software = {"client_software_name": "conversation", "client_software_version": "1.0"}
    for v in range(5):
        await s.admin.ask(f"version {v}", ApiVersionsRequest(**software), v)
    await s.admin.sends("version 99", 18, 99, b"", heard_in=0)
    await s.admin.sends("version 99 with a body", 18, 99, encode(ApiVersionsRequest(**software), 4), heard_in=0)
    await s.admin.ask("the connection stays", ApiVersionsRequest(**software), 3)
    for what, name, version in (
        ("no name", "", "1.0"),
        ("no version", "x", ""),
        ("a name with a space", "a b", "1.0"),
        ("a name that begins with a dash", "-x", "1.0"),
        ("a name with a dot", "a.b", "1.0"),
        ("a version that ends with a dot", "x", "1."),
    ):
        await s.admin.ask(what, ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)


@scene
async def find_coordinator(s: Stage) -> None:
    """Of groups, in every version, and of what is not a group."""
    for v in range(4):
        await s.admin.ask(f"of a group {v}", FindCoordinatorRequest(key=s.group), v)
        await s.admin.ask(f"of no group id {v}", FindCoordinatorRequest(key=""), v)
    for v in range(4, 7):
        await s.admin.ask(f"of groups {v}", FindCoordinatorRequest(coordinator_keys=[s.group, "", "other"]), v)
        await s.admin.ask(f"of none {v}", FindCoordinatorRequest(coordinator_keys=[]), v)
        await s.admin.ask(f"of one twice {v}", FindCoordinatorRequest(coordinator_keys=["a", "a"]), v)
    for v in (1, 3):
        await s.admin.ask(f"an unknown kind {v}", FindCoordinatorRequest(key="x", key_type=9), v)
        await s.admin.ask(f"a negative kind {v}", FindCoordinatorRequest(key="x", key_type=-1), v)
        await s.admin.ask(f"a share group's {v}", FindCoordinatorRequest(key="x", key_type=2), v)
    for v in (4, 5, 6):
        await s.admin.ask(f"an unknown kind {v}", FindCoordinatorRequest(coordinator_keys=["x"], key_type=9), v)
        await s.admin.ask(f"a share group's {v}", FindCoordinatorRequest(coordinator_keys=["x"], key_type=2), v)


@scene
async def requests_that_are_none(s: Stage) -> None:
    """Unknown keys and versions, bodies that are cut short or too long."""
    good = encode(HeartbeatRequest(group_id=s.group, member_id="x"), 4)
    one = s.client("one")
    await one.sends("an unknown api key", 9_999, 0, b"")
    await one.sends("a negative api key", -1, 0, b"")
    await one.sends("a heartbeat of version 5", 12, 5, good, heard_in=4)
    await one.sends("a heartbeat of version -1", 12, -1, good, heard_in=4)
    await one.sends("an empty heartbeat", 12, 4, b"")
    await one.sends("a heartbeat cut short", 12, 4, good[:-3])
    await one.sends("a heartbeat and more bytes", 12, 4, good + b"more")
    await one.sends("a heartbeat with an unknown tag", 12, 4, good[:-1] + b"\1\x63\3abc")
    await one.sends("a heartbeat with a tag cut short", 12, 4, good[:-1] + b"\1\x63\x7fabc")
    await one.sends("a null group id", 12, 4, b"\0" + b"\0\0\0\0" + b"\2x\0\0")
    await one.sends("a null group id in version 0", 12, 0, b"\xff\xff\0\0\0\0\0\1x")
    await one.sends("a group id longer than the rest", 12, 0, b"\x7f\xff\0\0\0\0\0\1x")
    await one.sends("a group id of negative length", 12, 0, b"\xff\xfe\0\0\0\0\0\1x")
    await one.sends("a group id that is not UTF-8", 12, 0, b"\0\2\xff\xfe\0\0\0\0\0\1x")
    await one.sends("an array longer than the rest", 15, 0, b"\x7f\xff\xff\xff")
    await one.sends("a null array where none may be", 15, 0, b"\xff\xff\xff\xff")
    await one.sends("an array of negative length", 15, 0, b"\xff\xff\xff\xfe")
    await one.sends("a compact array longer than the rest", 15, 5, b"\xff\xff\xff\xff\x07\0\0")
    await one.sends("a varint without end", 15, 5, b"\xff" * 12)
