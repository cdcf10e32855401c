"""The contract on disk between export and service: reading, checking, writing bundles; their preprocessing."""
