"""Client connections: frames are read and passed to request handlers, and the answers are written in order."""
