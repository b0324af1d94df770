"""The shell around the coordinator's shards: loading, timers, members' connections, the journal."""
