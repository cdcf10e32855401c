"""Admission: limits that apply before a call is read, and the order of waiting calls."""
