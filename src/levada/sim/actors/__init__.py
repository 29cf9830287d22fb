"""Those who use a simulated broker: members, producers, readers and admins, on raw requests or with our own clients."""
