"""Maps selected, grouped, pooled, reduced and encoded, on the thread that computed them."""
