"""What a cluster knows of itself: the records that say it, the image they add up to, and the door they come through."""
