"""What the attention of a served model is worth: measures of it, asked over RPC.

`statistics`, `weights` and `flow` are arithmetic on arrays; `rows` reads data; `measures` has a module for each
measure; `running` asks the server and makes a `report`.
"""
