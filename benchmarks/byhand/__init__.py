"""Workers written by hand for this one task: what the product is compared with."""
