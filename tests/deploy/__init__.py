"""Tests of deploy/: rules, dashboards and compose files."""
