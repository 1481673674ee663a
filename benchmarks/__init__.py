"""Measurements that can be repeated; each gives ratios from one run, none is a test."""
