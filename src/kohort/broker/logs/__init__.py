"""Topics and their logs: creation, group commit, leadership."""
