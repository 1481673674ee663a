"""For the tests of projects that use orbit_django, and for its own."""
