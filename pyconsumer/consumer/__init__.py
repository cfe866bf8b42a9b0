"""The consumer: facade, subscription state, fetching. What is public is exported by :mod:`pyconsumer`."""
