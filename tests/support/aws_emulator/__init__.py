"""AWS on this machine's loopback: moto, what moto lacks, faults on demand, and a count of calls."""
