"""The models of a bundle in plain numpy: what the graphs are checked against."""
