"""Consumer: fetches, positions, commits and callbacks."""
