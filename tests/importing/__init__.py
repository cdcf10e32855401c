"""Import of models of other libraries."""
