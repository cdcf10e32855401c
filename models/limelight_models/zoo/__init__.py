"""Published models, a file each: the network as its paper draws it, and its card."""
