"""The member of a consumer group (KIP-848): the coordinator says what it should own, the member gets there step by
step, and all of it goes by one request, ConsumerGroupHeartbeat."""
