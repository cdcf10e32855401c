"""Every mechanism of the surveys: its row, its implementation, how to build, feed and serve it (`testbed`)."""
