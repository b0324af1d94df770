"""The member of a classic group: JoinGroup, SyncGroup, and a leader that computes the assignment."""
