"""A scheduler filter for nova that keeps reserved hosts for those who reserved them."""
