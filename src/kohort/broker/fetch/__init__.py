"""The broker's side of Fetch: sessions, requests that wait for records, new partitions, reads from followers."""
