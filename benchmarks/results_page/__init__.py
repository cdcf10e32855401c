"""The page of results: what models reach, beside their controls, and beside what their papers claim."""
