"""The coordinators a cluster can have, behind the Door protocol of `metadata`."""
