"""What models say of themselves: one builder of label sets, inputs, maps and results."""
