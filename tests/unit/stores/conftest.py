from support.s3 import bucket

__all__ = ["bucket"]
