from s3_lab import bucket

__all__ = ["bucket"]
