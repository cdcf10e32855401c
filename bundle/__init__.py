"""The contract on disk between export and service: reading, checking and writing bundles, and the preprocessing they declare."""
