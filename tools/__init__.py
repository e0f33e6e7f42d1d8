"""The project's own checks and generators; `./run` calls them and nothing here is installed."""
