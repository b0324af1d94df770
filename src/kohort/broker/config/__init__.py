"""Settings of the broker, of topics and of groups: static and dynamic."""
