"""What the broker does with each request: one small module per API."""
