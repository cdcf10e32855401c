"""Long texts in time that grows with their length: one encoder, and attention that forms no matrix."""
