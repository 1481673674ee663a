"""Orders to play with: ``orders.json``, made by ``make_orders``."""
