"""Administration of topics, groups, offsets, configs and logs."""
