"""Messages that processes of this project exchange through Kafka topics."""
