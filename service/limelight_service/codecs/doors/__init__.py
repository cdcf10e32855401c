"""Doors that people know from other servers and services: OpenAI's API, TEI, Cohere, vLLM. Each is a thin codec.

A door states the fields of its requests (`fields`), chooses a served model by what it gives, has the core answer rows
(`asking`), and writes the answer in its own form. Every one takes two more fields, `attention` and `explain`, and
returns what they select beside the usual answer, which is the same to the byte without them.
"""
