"""Parts that all endpoints share: request bodies, problems, API keys, paging, entity tags and rate limits."""
