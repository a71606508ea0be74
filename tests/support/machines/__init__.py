"""Machines on one machine: each a set of namespaces with a disk, a network card and an end."""
