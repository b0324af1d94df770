"""Record batches as Arrow columns, by compiled code: what `kohort[fast]` brings, for the client and for Spark."""
