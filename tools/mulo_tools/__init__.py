"""The `mulo` command: generate, inspect, bench and train the reference family."""
