"""The consumer: facade, subscription state, fetching. The public names are exported by :mod:`pyconsumer`."""
