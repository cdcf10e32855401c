"""What the demo models learn from: a generated set each, and with it what people type first, and what has no answer."""
