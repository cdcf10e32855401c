"""Networks on graphs: nodes attend to their neighbours."""
