"""Mutation testing: small bugs are planted in a package one at a time, and the tests must notice each."""
