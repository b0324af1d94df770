"""Plans of what happens in a world: drawn from a seed, changed, stored in files."""
