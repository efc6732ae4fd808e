"""The HTTP service that embeds the runtime: OpenAI's image interface, health, metrics, and a page to watch."""
