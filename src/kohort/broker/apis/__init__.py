"""Request handlers: one small module per API or group of related APIs."""
