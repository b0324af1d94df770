"""Bugs of clients that people met, each found by the verdict of the test kit; see README.md."""
