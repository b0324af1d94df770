"""Requests and responses: one module per API. Each message is declared once for all versions."""
