"""A small real shop that works for an ORBIT runtime: place an order, charge it, send the receipt."""
