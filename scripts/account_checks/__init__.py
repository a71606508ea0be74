"""Checks of an AWS account before the stack is made in it."""
