"""The main job on real flights: broker, producer, a group that rebalances, Spark, a crash, and the proof."""
