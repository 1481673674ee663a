"""A small Django app whose rows show what handlers did."""
