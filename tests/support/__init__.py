"""Helpers of the tests: real Kafka, proxies, raw clients, processes. Nothing in the package uses them."""
