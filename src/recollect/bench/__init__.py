"""How fast this machine trains."""
