"""The assignor of the leader of a classic group in a world."""

PARTITIONS = 12


def assign(owned: dict[str, set[int]], *, is_eager: bool) -> dict[str, set[int]]:
    """Return a balanced assignment. A cooperative one gives nobody what another member still has (KIP-429)."""
    members = sorted(owned)
    quota = {member: PARTITIONS // len(members) + (n < PARTITIONS % len(members)) for n, member in enumerate(members)}
    shares = {member: set(sorted(owned[member])[: quota[member]]) for member in members}
    kept: set[int] = set().union(*shares.values())
    taken: set[int] = set() if is_eager else set().union(*owned.values())
    free = [number for number in range(PARTITIONS) if number not in kept]
    for member in members:
        while len(shares[member]) < quota[member] and free:
            number = free.pop(0)
            if number not in taken:
                shares[member].add(number)
    return shares
