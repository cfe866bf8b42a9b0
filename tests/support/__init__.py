"""Helpers of the tests: real Kafka, proxies, raw clients, processes. The package uses none of them."""
