"""Programs that others wrote for kafka-python and aiokafka, first with the originals and then with our layers."""
