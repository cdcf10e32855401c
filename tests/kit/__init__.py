"""What many tests start from: small models and bundles of every shape, servers in threads and in processes."""
