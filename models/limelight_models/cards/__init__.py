"""Cards of models: one builder of label sets, inputs, maps and results."""
