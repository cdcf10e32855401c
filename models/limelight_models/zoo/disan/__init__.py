"""Sentences encoded by attention alone, by directions and feature by feature."""
