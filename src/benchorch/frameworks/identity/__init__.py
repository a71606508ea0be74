"""Identity of a live module: everything reachable from it that may change what it computes."""
