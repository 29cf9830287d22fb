"""Producer, consumer and admin client."""
