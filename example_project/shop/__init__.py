"""The shop: what it sells, who ordered what, and the three handlers that carry an order out."""
