"""What stands in deploy/: rules, dashboards and compose files."""
