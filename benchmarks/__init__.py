"""Measurements that anybody can run again; the tables in docs/ come from here."""
