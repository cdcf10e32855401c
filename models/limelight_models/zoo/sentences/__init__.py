"""A sentence as a vector or several, by what attention picks of a recurrent encoder."""
