"""Import of models of other libraries to the same verified bundles."""
