"""Is an AWS account ready for a stack? Read-only checks, each of one question."""
