"""Plans of what happens in a world: drawn from a seed, shrunk, stored in files."""
