"""Background work on logs: retention and compaction."""
