"""Group membership: the driver of a member's state machine and its link to the coordinator."""
