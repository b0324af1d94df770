"""Consumer groups (KIP-848): the coordinator computes assignments; each member reconciles at its own pace."""
