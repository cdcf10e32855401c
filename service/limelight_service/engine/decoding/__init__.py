"""Models that generate: prefill, decode steps over a KV cache, search, detokenization, continuous batching."""
