"""Members for the experiments, each a process of its own: one program per client library, one application for all."""
