"""Published models, one file each: the network as its paper draws it, and its `Card`."""
