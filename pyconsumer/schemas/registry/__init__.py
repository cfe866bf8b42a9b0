"""The client of a Schema Registry: values, rules of the calls, HTTP, and a blocking and an asyncio client."""
