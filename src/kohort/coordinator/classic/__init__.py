"""Classic groups: members join together, and a leader computes the assignment."""
