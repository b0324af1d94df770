"""Member programs of the experiments: one process program per client library, with one shared application."""
