"""A Schema Registry in the embedded cluster: Confluent's REST API over a compacted topic, for tests and development.

* ``records``: keys and values of the topic.
* ``state``: subjects, ids, settings and modes, as the records say.
* ``formats``: schemas as text, ``avro_compatibility``: which schemas can read which data.
* ``operations``: the rules of each call. They decide which records are written.
* ``routes``: from requests to calls.
* ``http_server``: HTTP on the loop of the cluster.
* ``service``: reads the topic, makes a call, and writes its records.
"""
