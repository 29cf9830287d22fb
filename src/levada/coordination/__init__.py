"""Coordinators: decide, append, apply, reply when committed."""
