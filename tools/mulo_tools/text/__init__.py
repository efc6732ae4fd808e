"""The text side of published models: what their conditions are made of, by the libraries that were made for it."""
