"""The page that shows attention in a browser, and the local server that serves it.

The server passes the page's calls on to the HTTP port of a Limelight server and adds the caller's token, which the page
never sees. It needs nothing beyond the standard library.
"""
