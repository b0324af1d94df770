"""Consumer groups (KIP-848): the coordinator computes, and each member moves toward its target in its own time."""
