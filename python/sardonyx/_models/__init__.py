"""Models of any format: what users pass, and what is done with them."""
