"""Models beside their controls and beside the claims of their papers: docs/results.md."""
