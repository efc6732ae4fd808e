"""Images of many prompts, made without a service: resumable, in this process or spread over a Ray cluster."""
