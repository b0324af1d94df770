"""Several brokers that share one store: leadership, leases, and changes that other brokers make."""
