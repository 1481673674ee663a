"""Small projects of their own, each with one trait that some project has, in which everything is tried."""
