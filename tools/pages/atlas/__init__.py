"""The atlas: every system of the catalogue, here or missing, with its papers (`rows/*.toml`, `papers/*.bib`)."""
