"""The comparison of a bundle's graphs with references that share no code with them."""
