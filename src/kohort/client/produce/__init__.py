"""Producer: batches, partitioning, sending and deliveries."""
