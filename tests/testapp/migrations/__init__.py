"""Migrations of the test app."""
