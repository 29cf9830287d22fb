"""Raw requests to a broker, for actors and for checkers."""
