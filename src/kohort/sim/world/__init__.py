"""One world from its plan to its outcome, and the checks after the end of the faults."""
