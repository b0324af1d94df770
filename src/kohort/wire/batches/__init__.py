"""Record batches v2: headers, records and compression."""
